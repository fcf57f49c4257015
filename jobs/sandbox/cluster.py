"""The embedded cluster: several real Kafka nodes in KRaft mode, each a broker and a controller, on 127.0.0.1 only."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Self

from jobs.sandbox.broker import HOST, Broker, free_port, wait_until, with_plaintext_cluster
from jobs.spark.installation import jars_folder
from quota.errors import BadInput, ClusterError
from quota.kafka.topics.preparation import prepare_topics
from quota.kafka.topics.topic_admin import TopicAdmin
from quota.settings import Settings
from quota.settings.connection import Connection
from quota.settings.types import MAX_PORT

_READY_SECONDS = 60.0
_CALL_SECONDS = 10.0

_PROPERTIES = """\
node.id={node}
controller.quorum.voters={voters}
listeners=PLAINTEXT://{host}:{{port}},CONTROLLER://{host}:{controller_port}
default.replication.factor={replicas}
min.insync.replicas={in_sync}
offsets.topic.replication.factor={replicas}
transaction.state.log.replication.factor={replicas}
transaction.state.log.min.isr={in_sync}
share.coordinator.state.topic.replication.factor={replicas}
share.coordinator.state.topic.min.isr={in_sync}
"""


class Cluster:
    """Nodes that form a cluster; as a context manager they run inside the block."""

    def __init__(self, data: Path, jars: Path, nodes: int, port: int = 0) -> None:
        """Prepare a cluster with three replicas of each partition, two of which must be in sync.

        The nodes, at least three, have ports from `port` on, 0 for any free ones. Each has a folder in `data`, which
        the next start reuses.
        """
        existing = len(list(data.glob("node-*")))
        if existing not in (0, nodes):
            raise BadInput(
                f"{data} contains a cluster of {existing} nodes, not {nodes}; choose another folder with --data"
            )
        if port + nodes - 1 > MAX_PORT:
            raise BadInput(f"{nodes} nodes from port {port} on need ports above {MAX_PORT}; choose a lower --port")
        ports = [free_port() for _ in range(2 * nodes)]
        controllers = ports[:nodes]
        clients = list(range(port, port + nodes)) if port else ports[nodes:]
        voters = ",".join(f"{number}@{HOST}:{controller}" for number, controller in enumerate(controllers, 1))
        self.nodes = [
            Broker(
                data / f"node-{number}",
                jars,
                client,
                _PROPERTIES.format(
                    node=number, voters=voters, host=HOST, controller_port=controller, replicas=3, in_sync=2
                ),
            )
            for number, (client, controller) in enumerate(zip(clients, controllers, strict=True), 1)
        ]

    @property
    def address(self) -> str:
        """The bootstrap servers, host:port of each node, separated by commas."""
        return ",".join(node.address for node in self.nodes)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def start(self) -> None:
        """Start all nodes, and return when all replicas are in sync."""
        with ThreadPoolExecutor(len(self.nodes)) as pool:
            list(pool.map(Broker.prepare, self.nodes))
        with ExitStack() as started:
            started.callback(self.kill)
            for node in self.nodes:  # in this thread: the processes end when the thread that starts them ends
                node.launch()
            for node in self.nodes:
                node.wait_until_listening()
            self.wait_until_in_sync()
            started.pop_all()

    def kill(self) -> None:
        """Kill all nodes: if they were stopped one after the other, the last ones would wait for a lost quorum."""
        for node in self.nodes:
            node.kill()

    def check(self) -> None:
        """Check that all nodes still run."""
        for node in self.nodes:
            node.check()

    def wait_until_in_sync(self) -> None:
        """Wait until each node knows all nodes, and all replicas are in sync."""
        problem = f"the replicas of the embedded cluster are not in sync after {_READY_SECONDS:.0f} s"
        wait_until(self._is_in_sync, self.check, _READY_SECONDS, problem)

    def _is_in_sync(self) -> bool:
        with suppress(ClusterError):
            layouts = [TopicAdmin(Connection(node.address), _CALL_SECONDS).layout() for node in self.nodes]
            return all(
                len(layout.brokers) == len(self.nodes)
                and not any(topic.under_replicated or topic.leaderless for topic in layout.topics.values())
                for layout in layouts
            )
        return False


@contextmanager
def embedded_cluster(settings: Settings, nodes: int, port: int, data: Path | None = None) -> Iterator[Cluster]:
    """Run a cluster inside the block, with the topics prepared; the nodes have ports from `port` on, 0 for any."""
    folder = data or settings.storage.local_folder("brokers")
    with Cluster(folder, jars_folder(settings.broker.jars), nodes, port) as cluster:
        prepare_topics(with_plaintext_cluster(settings, cluster.address))
        yield cluster
