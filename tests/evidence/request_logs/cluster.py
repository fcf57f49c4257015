"""A cluster of a set-up, with its request logs."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from jobs.sandbox.broker import HOST, free_port
from quota.wire.protocol import Protocol
from tests.evidence.request_logs import properties
from tests.evidence.request_logs.jars import jars_of, protocol_of
from tests.evidence.request_logs.log_settings import log_options
from tests.evidence.request_logs.node import Node
from tests.evidence.request_logs.properties import Quorum, Tls
from tests.evidence.request_logs.setups import TURN_OF_THE_HOUR, Layout, SetUp
from tests.support.broker import Authority

_CLUSTER_ID = "cmVxdWVzdC1sb2dzLXRlcw"
_TURN_SECONDS = 90
_ASCII = 128


@dataclass(frozen=True, slots=True)
class Cluster:
    """A running cluster."""

    set_up: SetUp
    nodes: tuple[Node, ...]
    """Brokers, and the controller if it is a separate process."""
    slow: Node
    """The node that requests wait for: the controller, or ZooKeeper."""
    time_zone: str
    turn_ms: int | None
    """Time at which a new hour begins, epoch ms; None unless the time zone was chosen for it."""
    protocol: Protocol
    """Kafka's protocol in the version of the cluster."""
    folder: Path
    authority: Authority | None
    tls_address: str | None

    @property
    def brokers(self) -> tuple[Node, ...]:
        """The nodes that clients connect to."""
        return tuple(each for each in self.nodes if each.name.startswith("broker"))

    @property
    def address(self) -> str:
        """The bootstrap servers."""
        return ",".join(f"{HOST}:{each.port}" for each in self.brokers)


@contextmanager
def running(set_up: SetUp, folder: Path) -> Iterator[Cluster]:
    """Run a cluster inside the block.

    Raises:
        BadInput: There are no jars of its version.
        ClusterError: A node does not start.
    """
    jars = jars_of(set_up.version)
    time_zone, turn_ms = _time_zone(set_up)

    def node(name: str, number: int, port: int) -> Node:
        own = folder / name
        own.mkdir()
        # a separate controller logs from the start: not every version can change its level later
        level = "DEBUG" if name.startswith("controller") else "WARN"
        options = [f"-Duser.timezone={time_zone}", *log_options(set_up.version, own, level)]
        return Node(name, number, port, own, jars, options, {"LC_ALL": set_up.locale})

    authority = Authority(folder / "certificates") if set_up.secured else None
    tls = None if authority is None else _tls(authority, folder)
    with ExitStack() as stack:
        start = _with_zookeeper if set_up.layout is Layout.ZOOKEEPER else _with_kraft
        nodes, slow = start(set_up, stack, node, tls)
        tls_address = None if tls is None else f"{HOST}:{tls.port}"
        protocol = protocol_of(set_up.version)
        yield Cluster(set_up, nodes, slow, time_zone, turn_ms, protocol, folder, authority, tls_address)


_Make = Callable[[str, int, int], Node]
_Started = tuple[tuple[Node, ...], Node]


def _with_zookeeper(set_up: SetUp, stack: ExitStack, make: _Make, _: Tls | None) -> _Started:
    keeper = make("zookeeper", 0, free_port())
    text = properties.zookeeper(keeper.folder, keeper.port)
    _start(keeper, stack, "org.apache.zookeeper.server.ZooKeeperServerMain", text)
    keeper.wait()
    brokers = tuple(make(f"broker-{number}", number, free_port()) for number in range(1, set_up.brokers + 1))
    for each in brokers:
        text = properties.zookeeper_broker(each.folder, each.id, each.port, keeper.port)
        _start(each, stack, "kafka.Kafka", text)
        each.wait()  # the first to start becomes the controller
    return brokers, keeper


def _with_kraft(set_up: SetUp, stack: ExitStack, make: _Make, tls: Tls | None) -> _Started:
    combined = set_up.layout is Layout.COMBINED
    quorum = Quorum(1 if combined else 9, free_port())
    brokers = tuple(make(f"broker-{number}", number, free_port()) for number in range(1, set_up.brokers + 1))
    texts = {each.name: properties.broker(each.folder, each.id, each.port, quorum, tls) for each in brokers}
    nodes = brokers
    if not combined:
        controller = make(f"controller-{quorum.id}", quorum.id, quorum.port)
        texts[controller.name] = properties.controller(controller.folder, quorum, secured=set_up.secured)
        nodes = (*brokers, controller)
    for each in reversed(nodes):
        path = _write(each, texts[each.name])
        each.run("kafka.tools.StorageTool", "format", "-t", _CLUSTER_ID, "-c", path)
        stack.callback(each.stop)
        each.start("kafka.Kafka", path)
    for each in nodes:
        each.wait()
    return nodes, nodes[-1]


def _start(node: Node, stack: ExitStack, main: str, text: str) -> None:
    stack.callback(node.stop)
    node.start(main, _write(node, text))


def _write(node: Node, text: str) -> str:
    """Write a file of properties, which Java reads as ASCII with escapes."""
    path = node.folder / "node.properties"
    path.write_text("".join(each if ord(each) < _ASCII else f"\\u{ord(each):04x}" for each in text))
    return str(path)


def _tls(authority: Authority, folder: Path) -> Tls:
    keystore = folder / "broker.pem"
    certificate = authority.sign("broker", HOST)
    keystore.write_text(certificate.key.read_text() + certificate.path.read_text())
    return Tls(free_port(), keystore, authority.path)


def _time_zone(set_up: SetUp) -> tuple[str, int | None]:
    """Return the time zone of the nodes, and the time of its new hour (epoch ms) if it is chosen for one."""
    if set_up.time_zone != TURN_OF_THE_HOUR:
        return set_up.time_zone, None
    turn = (int(time.time()) + _TURN_SECONDS) // 60 + 1
    minutes = -turn % 60
    return f"GMT+05:{minutes:02}", turn * 60_000
