"""The clusters whose request logs are stored as test data."""

import enum
from dataclasses import dataclass

TURN_OF_THE_HOUR = "the turn of the hour"
"""Means a time zone with a fixed offset in which a new hour, and so a new log file, begins during the run."""

JSON_SINCE = IDS_SINCE = (2, 8)
"""The first release whose request log is JSON, and whose topics have ids; earlier logs are text."""


class Layout(enum.Enum):
    """The processes of a cluster."""

    ZOOKEEPER = "ZooKeeper"
    COMBINED = "KRaft, broker and controller in one process"
    SEPARATE = "KRaft, brokers and a controller in processes of their own"


@dataclass(frozen=True, slots=True)
class SetUp:
    """The version, processes and environment of a cluster."""

    version: str
    layout: Layout
    brokers: int
    time_zone: str
    """Time zone of the nodes, as Java names it; times in the log have no offset."""
    locale: str = "C.UTF-8"
    """Locale of the nodes, which determines the encoding of the log before Java 18."""
    secured: bool = False
    """Whether it has listeners for passwords and for certificates, and an authorizer."""

    @property
    def name(self) -> str:
        """Name of its folder in the test data."""
        kind = "zookeeper" if self.layout is Layout.ZOOKEEPER else "kraft"
        return f"{self.version}-{'secured' if self.secured else kind}"

    @property
    def release(self) -> tuple[int, ...]:
        """The version as numbers."""
        return tuple(map(int, self.version.split(".")))

    @property
    def about(self) -> str:
        """A description of the cluster in one line."""
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
