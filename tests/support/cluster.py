"""A cluster of three nodes, each a broker and a controller, with a separate listener for a gateway."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress

from jobs.installation import jars_folder
from jobs.sandbox.broker import HOST, Broker, free_port
from quota.errors import ClusterError
from quota.kafka.topics.topic_admin import TopicAdmin
from quota.settings.connection import Connection
from tests.support.waiting import until

# Each broker advertises itself on one listener, and the gateway on the other.
_PROPERTIES = """\
node.id={node}
controller.quorum.voters={voters}
listeners=PLAINTEXT://{host}:{{port}},GATEWAY://{host}:{inner},CONTROLLER://{host}:{controller}
advertised.listeners=PLAINTEXT://{host}:{{port}},GATEWAY://{host}:{outer}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,GATEWAY:PLAINTEXT,CONTROLLER:PLAINTEXT
inter.broker.listener.name=PLAINTEXT
default.replication.factor=3
min.insync.replicas=2
offsets.topic.replication.factor=3
offsets.topic.num.partitions=3
transaction.state.log.replication.factor=3
transaction.state.log.min.isr=2
share.coordinator.state.topic.replication.factor=3
share.coordinator.state.topic.min.isr=2
"""
_NO_CONTROLLER = """process.roles=broker
listeners=PLAINTEXT://{host}:{{port}},GATEWAY://{host}:{inner}
"""


class Node(Broker):
    """A broker with its port for the gateway, and the gateway's port that it advertises there.

    It is a controller, too, if its number is that of one.
    """

    def __init__(self, folder, jars, number, controllers, properties):
        self.inner, self.outer = free_port(), free_port()
        voters = ",".join(f"{node}@{HOST}:{port}" for node, port in enumerate(controllers, 1))
        template, controller = _PROPERTIES, 0
        if number > len(controllers):
            template += _NO_CONTROLLER
        else:
            controller = controllers[number - 1]
        own = template.format(
            node=number, voters=voters, host=HOST, inner=self.inner, outer=self.outer, controller=controller
        )
        super().__init__(folder / f"node-{number}", jars_folder(jars), extra_properties=own + properties)


class Cluster:
    """The nodes, which run inside the block; two of the three replicas of a partition must be in sync."""

    def __init__(self, folder, jars, properties=""):
        controllers = [free_port() for _ in range(3)]
        self.nodes = [Node(folder, jars, number, controllers, properties) for number in (1, 2, 3)]
        self.joining = Node(folder, jars, 4, controllers, properties)
        """A fourth broker, which a test may start and has to stop."""

    @property
    def address(self):
        """The bootstrap servers, host:port of each node, separated by commas."""
        return ",".join(node.address for node in self.nodes)

    def __enter__(self):
        with ThreadPoolExecutor(len(self.nodes)) as pool:
            list(pool.map(Broker.prepare, self.nodes))
        with ExitStack() as started:
            started.callback(self._kill)
            for node in self.nodes:  # in this thread: the processes end when the thread that starts them ends
                node.launch()
            for node in self.nodes:
                node.wait_until_listening()
            self.wait_until_in_sync()
            started.pop_all()
        return self

    def __exit__(self, *_):
        self._kill()

    def _kill(self):
        """Kill all nodes: if they were stopped one after the other, the last ones would wait for a lost quorum."""
        for node in [*self.nodes, self.joining]:
            node.kill()

    def wait_until_in_sync(self):
        """Wait until each node knows all nodes, and all replicas are in sync."""
        until(self._is_in_sync)

    def _is_in_sync(self):
        with suppress(ClusterError):
            layouts = [TopicAdmin(Connection(node.address), 10).layout() for node in self.nodes]
            return all(
                len(layout.brokers) == len(self.nodes)
                and not any(topic.under_replicated or topic.leaderless for topic in layout.topics.values())
                for layout in layouts
            )
        return False
