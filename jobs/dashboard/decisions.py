"""The decisions of the last hour, bounded in number and size, to show, explain and replay them."""

from collections import OrderedDict
from collections.abc import Iterator
from itertools import takewhile

import msgspec

from jobs.metrics.totals import MutationCounts
from quota.kafka.requests_and_answers import ReceivedAnswer
from quota.records import codec
from quota.records.decision import Decision, read_decision
from quota.records.record import Source
from quota.text import legible

KEPT_MS = 3_600_000
"""The time for which a decision is stored [ms]."""

_MAX_DECISIONS = 20_000
_MAX_BYTES = 128 * 1024 * 1024
_NAME_CHARS = 80


class Summary(msgspec.Struct, frozen=True):
    """A decision as a line of the page; names are in their display form."""

    seq: int
    """The number of the state change that added it."""
    id: str
    at: int
    """The time of the request [epoch ms]."""
    bucket: str
    """The key of its bucket, which identifies the tenant on the page."""
    user: str
    client: str
    operation: str
    topics: int
    topic: str
    admitted: int
    """Effective mutations admitted."""
    rejected: int
    outcome: str
    before: float | None
    after: float | None
    wait: int
    """The throttle time [ms]."""
    latency: int | None
    """The time from the request to its decision [ms]; None if no client waited for it."""
    shadow: bool
    validate_only: bool


class _Kept(msgspec.Struct, frozen=True):
    """A decision as its record, which takes less memory than a decision object."""

    record: bytes
    received_at: int
    timestamp: int
    source: Source
    summary: Summary


class RecentDecisions:
    """The newest decisions by id. Copies, which a crash may leave in the topic, count once."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, _Kept] = OrderedDict()
        self._bytes = 0

    def __contains__(self, decision_id: str) -> bool:
        return decision_id in self._kept

    def add(self, received: ReceivedAnswer, decision: Decision, summary: Summary) -> None:
        """Add a decision, and drop the oldest ones beyond the bounds."""
        record = codec.encode(decision)
        kept = _Kept(
            record,
            received.at,
            decision.timestamp,
            decision.source,
            summary,
        )
        self._kept[decision.decision_id] = kept
        self._bytes += len(record)
        while len(self._kept) > _MAX_DECISIONS or self._bytes > _MAX_BYTES:
            self._drop_oldest()

    def expire(self, now: int) -> None:
        """Drop the decisions that were received more than an hour ago."""
        while self._kept and next(iter(self._kept.values())).received_at < now - KEPT_MS:
            self._drop_oldest()

    def since(self, seq: int) -> Iterator[Summary]:
        """Yield the decisions that were added after a state change, newest first."""
        return takewhile(lambda summary: summary.seq > seq, (kept.summary for kept in reversed(self._kept.values())))

    @property
    def oldest_at(self) -> int | None:
        """The time of the oldest decision [epoch ms]."""
        return next((kept.summary.at for kept in self._kept.values()), None)

    def find(self, decision_id: str) -> Decision | None:
        """Return a decision by its id."""
        kept = self._kept.get(decision_id)
        return None if kept is None else read_decision(kept.record)

    def records(self) -> list[bytes]:
        """Return the immutable records of all decisions, in the order of their requests."""
        return [kept.record for kept in sorted(self._kept.values(), key=_position)]

    def _drop_oldest(self) -> None:
        _, dropped = self._kept.popitem(last=False)
        self._bytes -= len(dropped.record)


def summarize(decision: Decision, counts: MutationCounts, received_at: int, seq: int) -> Summary:
    """Return a decision, whose record has the timestamp `received_at` (epoch ms), as a line."""
    return Summary(
        seq,
        decision.decision_id,
        decision.timestamp,
        decision.tags.key,
        _shortened(decision.user),
        _shortened(decision.client_id),
        decision.operation.value,
        len(decision.topics),
        _shortened(decision.topics[0].name) if decision.topics else "",
        counts.mutations_admitted,
        counts.mutations_rejected,
        (decision.shadow or decision).outcome.value,
        decision.tokens_before,
        decision.tokens,
        decision.throttle_time_ms,
        None if decision.observed else max(0, received_at - decision.timestamp),
        decision.shadow is not None,
        decision.validate_only,
    )


def _position(kept: _Kept) -> tuple[int, tuple[object, ...]]:
    return kept.timestamp, msgspec.structs.astuple(kept.source)


def _shortened(name: str) -> str:
    text = legible(name)
    return text if len(text) <= _NAME_CHARS else f"{text[:_NAME_CHARS]}…"
