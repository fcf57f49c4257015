"""The topics of a cluster, as each of its brokers reports them."""

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from jobs.sandbox.broker import HOST
from tests.evidence.request_logs.cluster import Cluster
from tests.evidence.request_logs.frames import id_text
from tests.evidence.request_logs.setups import IDS_SINCE
from tests.evidence.request_logs.users import ADMIN, PASSWORDS
from tests.support.waiting import until
from tests.support.wire_client import WireClient

OBSERVER = "observer"
"""Client-id of the driver's own requests."""

_METADATA, _WITHOUT_IDS, _WITH_IDS = 3, 9, 11
"""API key of Metadata, and its versions without and with topic ids."""

_SECONDS = 30

Described = dict[str, tuple[int, str]]
"""Number of partitions and id by topic, for topics that exist; without topic ids the id is empty."""


@dataclass(frozen=True, slots=True)
class Observer:
    """Connections to all brokers, and the version of their Metadata requests."""

    connections: tuple[WireClient, ...]
    version: int

    def describe(self, names: Iterable[str]) -> Described:
        """Return the partitions and ids of those of these topics that exist, once all brokers report the same.

        Raises:
            AssertionError: The brokers still differ after 30 s.
        """
        wanted = sorted(set(names))
        if not wanted:
            return {}
        found: list[Described] = []

        def agreed() -> bool:
            found[:] = [self._described(each, wanted) for each in self.connections]
            return all(each == found[0] for each in found)

        until(agreed, _SECONDS, poll_seconds=0.02)
        return found[0]

    def _described(self, connection: WireClient, names: list[str]) -> Described:
        message = {"topics": [{"name": each} for each in names], "allowAutoTopicCreation": False}
        answer = connection.call(_METADATA, self.version, message)
        return {
            each["name"]: (len(each["partitions"]), id_text(each["topicId"]) if self.version == _WITH_IDS else "")
            for each in answer["topics"]
            if not each["errorCode"]
        }


@contextmanager
def observing(cluster: Cluster) -> Iterator[Observer]:
    """Connect to all brokers inside the block, as the administrator if the cluster is secured."""
    with ExitStack() as stack:
        connections = tuple(
            stack.enter_context(WireClient((HOST, each.port), cluster.protocol, OBSERVER)) for each in cluster.brokers
        )
        if cluster.set_up.secured:
            for each in connections:
                each.authenticate(ADMIN, PASSWORDS[ADMIN])
        yield Observer(connections, _WITH_IDS if cluster.set_up.release >= IDS_SINCE else _WITHOUT_IDS)
