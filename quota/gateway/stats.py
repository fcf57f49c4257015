"""The counters of a gateway, which other threads may read while it runs."""

import logging
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from quota.gateway.operations import MutationResponse
from quota.records.decision_request import DecisionReply
from quota.records.entity import QuotaEntity
from quota.records.reason import Reason
from quota.records.request import OPERATIONS, STRICT_SINCE
from quota.text import plural
from quota.wire.headers import RequestHeader
from quota.wire.protocol import Address, ApiKey

_log = logging.getLogger(__name__)

_BOUNDS = (0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0, 2.0, 5.0, 10.0, 30.0)
"""The upper bounds of the histogram of decisions [s]."""

_LEVELS = dict.fromkeys(("broker", "broker_closed", "answer"), logging.WARNING)
"""The log levels of reasons to close a connection that the client did not cause."""
_MAX_USERS = 500
"""The users that have a series of their own."""
_LOG_MS = 1000
"""The shortest time between two lines about connections that were closed for the same reason."""


@dataclass(slots=True)
class GatewayStats:
    """Counts since the program started; one thread writes them, and others may read."""

    connections: int = 0
    """Connections that are open."""
    accepted: int = 0
    closed: Counter[str] = field(default_factory=Counter)
    """Connections that the gateway closed itself, by reason."""
    buffered_bytes: int = 0
    """What all connections together buffer, as of the last sweep [bytes]."""
    relayed: int = 0
    """The number of requests forwarded unchanged."""
    client_bytes: int = 0
    broker_bytes: int = 0
    mutations: Counter[tuple[str, str, str, str]] = field(default_factory=Counter)
    """Topics by operation, mode, outcome and reason (see `MutationResponse.topics`)."""
    uncharged: Counter[str] = field(default_factory=Counter)
    """Mutations that proceeded without a decision, by user."""
    unrecorded: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Topics that were rejected without a decision or a dead letter, by reason and user."""
    undecided: int = 0
    """Requests without a decision in time."""
    late: int = 0
    """Decisions that arrived after the timeout."""
    muted: int = 0
    """Times that a channel was muted."""
    muted_ms: int = 0
    """The sum of these mutes [ms]."""
    foreign_addresses: int = 0
    """Addresses in brokers' responses that would bypass the gateway, and were removed."""
    decision_seconds: float = 0.0
    """The sum of the times from a mutation request to its decision [s]."""
    is_serving: bool = False
    """Whether new connections are accepted."""
    looped_at: float = 0.0
    """The time at which the event loop last ran, by the monotonic clock [s]; 0 before it serves."""
    certificate_ends_at: float | None = None
    """The time until which the certificate for clients is valid [epoch s]; None if it is not known."""
    broker_failures: dict[int, str] = field(default_factory=dict)
    """Why the broker behind each port does not respond, with its address; empty if it does."""
    _users: set[str] = field(default_factory=set)
    _decisions: list[int] = field(default_factory=lambda: [0] * (len(_BOUNDS) + 1))
    _logged: set[Address | QuotaEntity] = field(default_factory=set)
    _closed_logged: dict[str, tuple[int, int]] = field(default_factory=dict)
    """When a line about each reason was logged, and the number of connections until then."""
    _is_silent: bool = False

    def add_closed(self, reason: str, peer: str, message: str, now: int) -> None:
        """Count a connection that is closed at `now` (ms), and log it unless another one has just been logged.

        Thousands of clients that try a broker that is down again and again would fill a disk.
        """
        self.closed[reason] += 1
        logged_at, count = self._closed_logged.get(reason, (now - _LOG_MS, 0))
        if not message or now - logged_at < _LOG_MS:
            return
        more = self.closed[reason] - count - 1
        others = f" (and {plural(more, 'other')} for this reason)" if more else ""
        self._closed_logged[reason] = now, self.closed[reason]
        _log.log(_LEVELS.get(reason, logging.INFO), "closing the connection of %s%s: %s", peer, others, message)

    def set_broker(self, port: int, failure: str) -> None:
        """Record that the broker behind a port responds, or why it does not; a change is logged."""
        failed = self.broker_failures.get(port, "")
        self.broker_failures[port] = failure
        if failure and not failed:
            moved = "connections to port %d lead to another broker, if any responds, until its own one does: %s"
            _log.warning(moved, port, failure)
        elif failed and not failure:
            _log.info("the broker behind port %d responds again", port)

    def add_mutation(self, request: RequestHeader, response: MutationResponse) -> None:
        """Count the topics of a client's request."""
        operation = OPERATIONS[ApiKey(request.api_key)]
        mode = "strict" if request.api_version >= STRICT_SINCE[operation] else "permissive"
        for (outcome, reason), topics in response.topics.items():
            self.mutations[operation.value.lower(), mode, outcome, reason] += topics
        if response.mute_ms:
            self.muted += 1
            self.muted_ms += response.mute_ms

    def add_uncharged(self, user: str, mutations: int) -> None:
        """Count mutations that proceed without a decision; those of further users are counted together."""
        self.uncharged[self._counted(user)] += mutations

    def add_unrecorded(self, user: str, reasons: Mapping[Reason, int]) -> None:
        """Count topics that are rejected without a record, by reason; those of further users are counted together."""
        for reason, topics in reasons.items():
            self.unrecorded[reason.value, self._counted(user)] += topics

    def _counted(self, user: str) -> str:
        """Return the user if it has series of its own, or else an empty name."""
        if len(self._users) < _MAX_USERS:
            self._users.add(user)
        return user if user in self._users else ""

    def add_decision(self, seconds: float | None) -> None:
        """Count a decision, and how long it took [s]; None if it was too late."""
        if seconds is None:
            self.late += 1
            return
        if self._is_silent:
            self._is_silent = False
            _log.info("receiving decisions again")
        self._decisions[bisect_left(_BOUNDS, seconds)] += 1
        self.decision_seconds += seconds

    def add_reply(self, reply: DecisionReply) -> None:
        """Count a reply without a decision, unless the request is invalid; the first that is not in time is logged."""
        if reply.decision is None and not reply.is_invalid:
            self.undecided += 1
            if reply.was_requested and not (reply.error_code or self._is_silent):
                self._is_silent = True
                _log.warning("no decision in time; %s", reply.cause or "check that mutation-quota enforce is running")

    def decisions(self) -> Iterator[tuple[float, int]]:
        """Yield upper bounds [s], the last one infinite, with the number of decisions that took at most this time."""
        return zip((*_BOUNDS, float("inf")), accumulate(self._decisions.copy()), strict=True)

    def add_foreign(self, addresses: Sequence[Address]) -> None:
        """Count addresses that bypass the gateway, and log each once."""
        self.foreign_addresses += len(addresses)
        for host, port in set(addresses) - self._logged:
            self._logged.add((host, port))
            _log.error(
                "a broker advertises %s:%d, which bypasses this gateway; the address is removed from responses; unless "
                "the broker has just joined, make gateway.listeners and the broker's advertised.listeners agree",
                host,
                port,
            )

    def add_brokers_rate(self, entity: QuotaEntity) -> None:
        """Log once that the brokers have a rate of their own for an entity."""
        if entity not in self._logged:
            self._logged.add(entity)
            _log.warning(
                "%s: the brokers have a controller_mutation_rate, too, which charges the same mutations again; "
                "altering it through the gateway moves it to the quota log",
                entity,
            )

    def __str__(self) -> str:
        outcomes: Counter[str] = Counter()
        for (_, _, outcome, _), count in dict(self.mutations).items():  # another thread may add to it
            outcomes[outcome] += count
        return (
            f"connections: {self.connections} open, {self.accepted} accepted; requests relayed: {self.relayed}; "
            f"topics: {outcomes['admitted']} admitted, {outcomes['rejected']} rejected, {outcomes['failed']} failed; "
            f"without a decision in time: {plural(self.undecided, 'request')}"
        )
