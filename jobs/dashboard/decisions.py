"""The newest decisions, bounded in time, number and size, to show, explain and replay them."""

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import takewhile

import msgspec

from jobs.metrics.totals import MutationCounts
from quota.admission.order import Position, in_order, position_of
from quota.kafka.timing import HOUR_MS
from quota.records import codec
from quota.records.decision import Decision, read_decision
from quota.text import legible


@dataclass(frozen=True, slots=True)
class Span:
    """The time that the page shows."""

    kept: int
    """The time for which data is stored [ms]."""
    width: int
    """The length of an interval [ms]."""

    def start_of(self, moment: int) -> int:
        """Return the start of the interval that contains a time (epoch ms)."""
        return moment // self.width * self.width


LAST_HOUR = Span(HOUR_MS, 5000)
"""What the live page shows."""

KEPT_DECISIONS = 20_000
_MAX_BYTES = 128 * 1024 * 1024
NAME_CHARS = 80


class Summary(msgspec.Struct, frozen=True):
    """A decision as a line of the page; names are in their display form."""

    seq: int
    """The number of the state change that added it."""
    id: str
    at: int
    """The time of the request [epoch ms]."""
    place: int
    """The newest time in the request's partition up to it [epoch ms], by which decisions are ordered."""
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
    reason: str | None
    """The first reason of its rejected topics, also in shadow; None if all are admitted."""
    before: float | None
    after: float | None
    wait: int
    """The throttle time [ms]; 0 of an observed request, whose client is not told it."""
    latency: int | None
    """The time from the request to its decision [ms]; None if no client waited for it."""
    shadow: bool
    validate_only: bool


class _Kept(msgspec.Struct, frozen=True):
    """A decision as its record, which takes less memory than a decision object."""

    record: bytes
    received_at: int
    position: Position
    summary: Summary


class RecentDecisions:
    """The newest decisions by id. Copies, which a crash may leave in the topic, count once."""

    def __init__(self, kept_ms: int) -> None:
        self._kept_ms = kept_ms
        self._kept: OrderedDict[str, _Kept] = OrderedDict()
        self._bytes = 0

    def __contains__(self, decision_id: str) -> bool:
        return decision_id in self._kept

    def add(self, decision: Decision, summary: Summary, received_at: int) -> None:
        """Add a decision, whose record has the timestamp `received_at`, and drop the oldest beyond the bounds."""
        record = codec.encode(decision)
        self._kept[summary.id] = _Kept(record, received_at, position_of(decision), summary)
        self._bytes += len(record)
        while len(self._kept) > KEPT_DECISIONS or self._bytes > _MAX_BYTES:
            self._drop_oldest()

    def expire(self, now: int) -> None:
        """Drop the decisions that were received too long before `now` (epoch ms)."""
        while self._kept and next(iter(self._kept.values())).received_at < now - self._kept_ms:
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

    def of_bucket(self, key: str) -> list[Summary]:
        """Return the decisions of a bucket, by its key, in the order in which they were made."""
        of_bucket = (kept for kept in self._kept.values() if kept.summary.bucket == key)
        return [kept.summary for kept in in_order(of_bucket, lambda kept: kept.position)]

    def records(self) -> list[bytes]:
        """Return the immutable records of all decisions, those of each bucket in its order."""
        return [kept.record for kept in in_order(self._kept.values(), lambda kept: kept.position)]

    def _drop_oldest(self) -> None:
        _, dropped = self._kept.popitem(last=False)
        self._bytes -= len(dropped.record)


def summarize(decision: Decision, counts: MutationCounts, received_at: int | None, place: int, seq: int) -> Summary:
    """Return a decision as a line; its record has the timestamp `received_at` (epoch ms), None if nobody waited."""
    return Summary(
        seq,
        decision.decision_id,
        decision.timestamp,
        place,
        decision.tags.key,
        _shortened(decision.user),
        _shortened(decision.client_id),
        decision.operation.value,
        len(decision.topics),
        _shortened(decision.topics[0].name) if decision.topics else "",
        counts.mutations_admitted,
        counts.mutations_rejected,
        decision.verdict.outcome.value,
        decision.reason.value if decision.reason else None,
        decision.tokens_before,
        decision.tokens,
        0 if decision.observed else decision.throttle_time_ms,
        None if received_at is None or decision.observed else max(0, received_at - decision.timestamp),
        decision.shadow is not None,
        decision.validate_only,
    )


def _shortened(name: str) -> str:
    text = legible(name)
    return text if len(text) <= NAME_CHARS else f"{text[:NAME_CHARS]}…"
