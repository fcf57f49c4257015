"""The clusters whose request logs are kept as test data."""

import enum
from dataclasses import dataclass

TURN_OF_THE_HOUR = "the turn of the hour"
"""A time zone of a fixed offset, chosen so that the hour turns, and the log with it, while the cluster is driven."""


JSON_SINCE = IDS_SINCE = (2, 8)
"""The release whose request log is JSON, and whose topics have ids; before, the log is text."""


class Layout(enum.Enum):
    """Which processes a cluster has."""

    ZOOKEEPER = "ZooKeeper"
    COMBINED = "KRaft, broker and controller in one process"
    SEPARATE = "KRaft, brokers and a controller in processes of their own"


@dataclass(frozen=True, slots=True)
class SetUp:
    """A cluster."""

    version: str
    layout: Layout
    brokers: int
    time_zone: str
    """Of the nodes' clocks, as Java names it; the layout of the log writes no offset."""
    locale: str = "C.UTF-8"
    """Of the nodes: before Java 18 it says in which encoding the log is written."""
    secured: bool = False
    """Listeners for passwords and for certificates, and an authorizer."""

    @property
    def name(self) -> str:
        """Name of the folder."""
        kind = "zookeeper" if self.layout is Layout.ZOOKEEPER else "kraft"
        return f"{self.version}-{'secured' if self.secured else kind}"

    @property
    def release(self) -> tuple[int, ...]:
        """The version's numbers."""
        return tuple(map(int, self.version.split(".")))

    @property
    def about(self) -> str:
        """What the cluster is, in one line."""
        brokers = f"{self.brokers} brokers" if self.brokers > 1 else "1 broker"
        words = [f"Kafka {self.version}", self.layout.value, brokers]
        words += ["SASL, TLS and ACLs"] if self.secured else []
        return ", ".join([*words, f"locale {self.locale}"])


SET_UPS = (
    SetUp("2.7.2", Layout.ZOOKEEPER, 1, "UTC"),
    SetUp("2.8.2", Layout.ZOOKEEPER, 2, "Europe/Berlin"),
    SetUp("3.3.2", Layout.COMBINED, 1, "UTC", locale="C"),
    SetUp("3.9.2", Layout.SEPARATE, 1, "America/New_York"),
    SetUp("4.2.1", Layout.SEPARATE, 2, TURN_OF_THE_HOUR),
    SetUp("4.2.1", Layout.SEPARATE, 1, "UTC", secured=True),
)
