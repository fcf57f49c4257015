"""A cluster of several brokers, each with a separate listener for a gateway."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from jobs.sandbox.broker import HOST, Broker, free_port
from jobs.spark.installation import jars_folder

# The first node is the controller, too. Each broker advertises itself on one listener, and the gateway on the other.
_PROPERTIES = """\
process.roles={roles}
node.id={node}
controller.quorum.voters=1@{host}:{controller}
listeners=PLAINTEXT://{host}:{{port}},GATEWAY://{host}:{inner}{controller_listener}
advertised.listeners=PLAINTEXT://{host}:{{port}},GATEWAY://{host}:{outer}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,GATEWAY:PLAINTEXT,CONTROLLER:PLAINTEXT
inter.broker.listener.name=PLAINTEXT
offsets.topic.replication.factor=1
offsets.topic.num.partitions=3
"""


@dataclass(frozen=True, slots=True)
class Node:
    """A broker: its port, its port for the gateway, and the gateway's port that it advertises there."""

    broker: Broker
    inner: int
    outer: int


@contextmanager
def running_cluster(folder, jars) -> Iterator[list[Node]]:
    """Run a cluster of three nodes inside the block."""
    controller = free_port()
    with ExitStack() as stack:
        started = []
        for number in (1, 2, 3):
            inner, outer = free_port(), free_port()
            properties = _PROPERTIES.format(
                roles="broker,controller" if number == 1 else "broker",
                node=number,
                host=HOST,
                controller=controller,
                inner=inner,
                outer=outer,
                controller_listener=f",CONTROLLER://{HOST}:{controller}" if number == 1 else "",
            )
            started.append(
                Node(Broker(folder / f"node-{number}", jars_folder(jars), extra_properties=properties), inner, outer)
            )
        for node in started:
            node.broker.prepare()
            stack.callback(node.broker.kill)  # stopped one after the other, the last ones would wait for the first
            node.broker.launch()
        for node in started:
            node.broker.wait_until_listening()
        yield started
