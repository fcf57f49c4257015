"""The state that all channels of a gateway share, and the interface of a channel to the server."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol as Interface

from quota.errors import MutationQuotaError
from quota.gateway.addresses import Addresses
from quota.gateway.client_quotas import RatesCall
from quota.gateway.endpoints import LeaderEndpoints
from quota.gateway.mutations.memory import Memory
from quota.gateway.mutations.mutate import Rules
from quota.gateway.mutes import Mutes
from quota.gateway.offered import OfferedApis
from quota.gateway.stats import GatewayStats
from quota.records.decision_request import DecisionRequest
from quota.wire.protocol import Protocol


@dataclass(frozen=True)
class GatewayContext:
    """The state that all channels of a gateway share."""

    protocol: Protocol
    offered: OfferedApis
    addresses: Addresses
    rules: Rules
    mutes: Mutes
    stats: GatewayStats = field(default_factory=GatewayStats)
    memory: Memory = field(default_factory=Memory)
    authenticates: bool = False
    """Whether clients are identified, by SASL or by their certificates; otherwise all are ANONYMOUS."""
    subject_claim: str = "sub"
    """The claim of an OAUTHBEARER token that names the user."""

    @cached_property
    def endpoints(self) -> LeaderEndpoints:
        """The addresses of new leaders."""
        return LeaderEndpoints(self.protocol, self.addresses, self.stats.add_foreign)


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


class ChannelError(MutationQuotaError):
    """A channel that must be closed; `reason` is a word for the metrics, the message is for the log."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason
