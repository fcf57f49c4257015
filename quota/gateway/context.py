"""What all channels of a gateway share, and the interface of a channel to the server."""

from dataclasses import dataclass, field
from typing import Literal
from typing import Protocol as Interface

from quota.explanation.shortfall import REASON
from quota.gateway.addresses import Addresses
from quota.gateway.client_quotas import RatesCall
from quota.gateway.memory import Debts, KnownBuckets, RecentTopics, Turns
from quota.gateway.mutes import Mutes
from quota.gateway.requests import OfferedApis
from quota.gateway.stats import GatewayStats
from quota.records.decision_request import DecisionRequest
from quota.wire.protocol import Protocol

WhenSilent = Literal["closed", "open"]
"""The behaviour without a decision: `closed` returns an error. `open` proceeds if no request of the gateway has been
decided for the time that a decision may take, and not because a client's own time limit is shorter, as far as the
client's bucket goes by its last decision."""


@dataclass
class GatewayContext:
    """The settings of a gateway, and the state that all its channels share."""

    protocol: Protocol
    offered: OfferedApis
    addresses: Addresses
    authenticates: bool = False
    """Whether clients are identified, by SASL or by their certificates; otherwise all are ANONYMOUS."""
    subject_claim: str = "sub"
    """The claim of an OAUTHBEARER token that names the user."""
    when_silent: WhenSilent = "closed"
    decision_timeout_ms: int = 10_000
    """The time that a decision may take [ms], if the client's own time limit is not shorter."""
    assumed_partitions: int = 1
    """The cost of such a topic while the brokers have told no client their number."""
    rejection_message: str = REASON
    """The setting `quota.rejection_message`."""
    enforced_by: str = "the cluster"
    """The servers on which the enforcing job should run, for errors."""

    stats: GatewayStats = field(default_factory=GatewayStats)
    mutes: Mutes = field(default_factory=Mutes)
    recent: RecentTopics = field(default_factory=RecentTopics)
    """The topics that were changed lately."""
    debts: Debts = field(default_factory=Debts)
    """The debts of clients, as their last decisions told them."""
    buckets: KnownBuckets = field(default_factory=KnownBuckets)
    """The buckets of clients, as the last decisions for all gateways left them."""
    changing: Turns = field(default_factory=Turns)
    """The topics that are being changed: each by one request at a time."""
    growing: Turns = field(default_factory=Turns)
    """The users whose growths are validated: one at a time, since the controller handles one request at a time."""
    deletion_enabled: bool | None = None
    """Whether topics can be deleted, the brokers' `delete.topic.enable`; None if it is not known."""
    default_partitions: int | None = None
    """What a topic with the brokers' default number of partitions costs: what they told last, or the assumed number;
    None before the first one."""


class ChannelIO(Interface):
    """The interface of a channel to the server: connections, decisions, timers and the clock."""

    def to_client(self, data: bytes) -> None:
        """Send bytes to the client."""

    def to_broker(self, data: bytes) -> None:
        """Send bytes to the broker."""

    def request_decision(self, request: DecisionRequest) -> None:
        """Request a decision; the server later calls `Channel.go_on` with the reply."""

    def call_rates(self, call: RatesCall) -> None:
        """Access the rates in the quota log; the server later calls `Channel.go_on` with the reply."""

    def pause(self, ms: int) -> None:
        """Call `Channel.go_on` after `ms` milliseconds."""

    def now(self) -> int:
        """Return the time of a monotonic clock [ms]."""
