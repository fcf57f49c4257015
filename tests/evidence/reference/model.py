"""What the rules say to a log, worked out anew: in fractions, from JSON's own module, with nothing of `quota` in it.

It is slow and plain on purpose: each bucket is played from its beginning, each quota is looked up in the whole list of
changes. Only debts so small that they count as none, and rounded times, know that the job reckons in floats.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

from tests.evidence.replay.log import ABSENT, TOPIC, Change, Entity, Entry, Log, Reset

Tags = tuple[str, str]
Bounds = tuple[float, float | None]

STRICT_SINCE = {"CREATE_TOPICS": 6, "CREATE_PARTITIONS": 3, "DELETE_TOPICS": 5}
MAX_INT = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Expected:
    """What a decision must say. Throttle times lie between two bounds, which are the same but for rounding."""

    tags: Tags
    rate: float | None
    admitted: tuple[bool, ...]
    before: Fraction | None
    after: Fraction | None
    throttle_ms: tuple[int, int]
    repeats: tuple[str, int] | None = None
    """The decision that admitted the same request before, and how many of its topics."""


@dataclass(frozen=True, slots=True)
class _Paid:
    """A request that a bucket has admitted: all that was said of it, by which decision, when, how many topics."""

    said: tuple[object, ...]
    decision_id: str
    at: int
    topics: int


@dataclass(frozen=True, slots=True)
class _Kept:
    """A bucket, and what it remembers to have admitted, in the order in which it came."""

    tokens: Fraction
    at: int
    bounds: Bounds
    reset: int | None
    paid: Sequence[_Paid]


@dataclass(slots=True)
class Reference:
    """Decides requests one after the other, in the order in which it is given them."""

    log: Log
    _kept: dict[Tags, _Kept] = field(default_factory=dict)

    def decide(self, entry: Entry, offset: int) -> Expected:
        """What comes of a request, after those before it."""
        request, now = entry.request, entry.timestamp
        user, client = request.get("user") or "ANONYMOUS", request.get("client_id") or "<none>"
        costs = [topic["partitions"] for topic in request["topics"]]
        found = self._quota(user, client, now)
        if found is None:
            return Expected(("", ""), None, (True,) * len(costs), None, None, (0, 0))
        tags, bounds = found
        kept = self._kept.get(tags)
        reset = self._reset(tags, now)
        if kept is not None and reset is not None and (kept.reset is None or kept.reset < reset):
            kept = None
        before = self._tokens(kept, bounds, self._since(tags, bounds, user, client, now), now)
        if request.get("validate_only"):
            return Expected(tags, bounds[0], (True,) * len(costs), before, before, (0, 0))
        stored = before if kept is None else kept.tokens
        strict = request["api_version"] >= STRICT_SINCE[request["operation"]]
        paid = () if kept is None else kept.paid
        first = self._first(paid, entry)
        free = 0 if first is None else first.topics
        charged, after = _charge(costs[free:], before, stored, strict=strict)
        admitted = (*[True] * free, *charged)
        throttled = not all(admitted) if strict else _in_debt(after, stored)
        if any(charged):
            paid = self._paid(paid, first, entry, offset, sum(admitted))
        if kept is None:
            kept = _Kept(after, now, bounds, reset, paid)
        elif now < kept.at:
            kept = replace(kept, tokens=after, paid=paid)
        elif any(charged) or kept.bounds != bounds:
            kept = _Kept(after, now, bounds, kept.reset, paid)
        self._kept[tags] = kept
        waits = _waits(after, bounds[0]) if throttled else (0, 0)
        repeats = None if first is None else (first.decision_id, first.topics)
        return Expected(tags, bounds[0], admitted, before, after, waits, repeats)

    def bucket_of(self, entry: Entry) -> Tags | None:
        """The bucket of a request, None where it touches none."""
        request = entry.request
        user, client = request.get("user") or "ANONYMOUS", request.get("client_id") or "<none>"
        found = self._quota(user, client, entry.timestamp)
        return None if found is None else found[0]

    def _first(self, paid: Sequence[_Paid], entry: Entry) -> _Paid | None:
        """The same request as it was admitted before, if the bucket remembers it and it is not too old."""
        window, said = self.log.repeats.window_ms, _said(entry)
        return next((each for each in paid if each.said == said and entry.timestamp - each.at <= window), None)

    def _paid(
        self, paid: Sequence[_Paid], first: _Paid | None, entry: Entry, offset: int, topics: int
    ) -> Sequence[_Paid]:
        """What a bucket remembers after a charge: nothing that is too old beside it, and of the others the latest."""
        repeats = self.log.repeats
        if not repeats.window_ms:
            return ()
        if first is None:
            first = _Paid(_said(entry), f"{TOPIC}-{entry.partition}-{offset}", entry.timestamp, topics)
            paid = [*paid, first]
        paid = [replace(each, topics=topics) if each is first else each for each in paid]
        return [each for each in paid if first.at - each.at <= repeats.window_ms][-repeats.most :]

    def _tokens(self, kept: _Kept | None, bounds: Bounds, since: int, now: int) -> Fraction:
        if kept is None:
            return self._burst(bounds)
        if now < kept.at:
            return min(kept.tokens, self._burst(kept.bounds))
        turned = max(since, kept.at) if kept.bounds != bounds else kept.at
        tokens = kept.tokens
        if kept.bounds != bounds:
            tokens = min(tokens + _gain(kept.bounds, turned - kept.at), self._burst(kept.bounds))
        return min(tokens + _gain(bounds, now - turned), self._burst(bounds))

    def _burst(self, bounds: Bounds) -> Fraction:
        rate, own = bounds
        window = self.log.window
        return Fraction(rate) * window.num * window.size_seconds if own is None else Fraction(own)

    def _quota(self, user: str, client: str, at: int) -> tuple[Tags, Bounds] | None:
        """The most specific of the eight levels that has a quota."""
        for entity, tags in _levels(user, client):
            bounds = self._set(entity, at)
            if bounds is not None:
                return tags, bounds
        return None

    def _set(self, entity: Entity, at: int) -> Bounds | None:
        """What is set for an entity as of a moment; of two changes at one moment the later one."""
        found: Bounds | None = None
        for change in self.log.changes:
            if isinstance(change, Change) and change.entity == entity and change.moment <= at:
                found = None if change.rate is None else (change.rate, change.burst)
        return found

    def _since(self, tags: Tags, bounds: Bounds, user: str, client: str, at: int) -> int:
        """Since when the bucket has had these bounds, by whichever of its levels."""
        sharing = [entity for entity, shared in _levels(user, client) if shared == tags]
        since = at
        for moment in sorted({change.moment for change in self.log.changes if change.moment <= at}, reverse=True):
            held = next((found for entity in sharing if (found := self._set(entity, moment))), None)
            if held != bounds:
                break
            since = moment
        return since

    def _reset(self, tags: Tags, at: int) -> int | None:
        named = {name: tag for name, tag in zip(("user", "client-id"), tags, strict=True) if tag}
        moments = [
            change.moment
            for change in self.log.changes
            if isinstance(change, Reset) and change.moment <= at and change.tags.items() <= named.items()
        ]
        return max(moments, default=None)


def in_partition_order(log: Log) -> list[tuple[int, Entry]]:
    """Requests with their offsets, as they came: the order of buckets that are fed by one partition each."""
    return [(offset, entry) for offset, entry in log.placed() if entry.request is not None]


def in_guaranteed_order(log: Log, batches: Sequence[Iterable[tuple[int, int]]]) -> list[tuple[int, Entry]]:
    """The order of buckets that are fed by several partitions.

    Batch after batch; in a batch by the highest timestamp that the partition has had so far there, among the bucket's
    requests, then by partition, then by offset.

    Args:
        log: the log.
        batches: partition and offset of each record, batch by batch.
    """
    reference = Reference(log)
    entries = {(entry.partition, offset): entry for offset, entry in log.placed()}
    ordered: list[tuple[int, Entry]] = []
    for batch in batches:
        highest: dict[tuple[Tags | None, int], int] = {}
        keyed = []
        for partition, offset in sorted(batch):
            entry = entries[partition, offset]
            if entry.request is None:
                continue
            place = reference.bucket_of(entry), partition
            highest[place] = max(entry.timestamp, highest.get(place, entry.timestamp))
            keyed.append((highest[place], partition, offset))
        ordered += [(offset, entries[partition, offset]) for _, partition, offset in sorted(keyed)]
    return ordered


def _charge(costs: Sequence[int], tokens: Fraction, stored: Fraction, *, strict: bool) -> tuple[list[bool], Fraction]:
    admitted = []
    for cost in costs:
        admitted.append(not strict or not _in_debt(tokens, stored))
        tokens -= cost if admitted[-1] else 0
    return admitted, tokens


def _said(entry: Entry) -> tuple[object, ...]:
    """What makes a request the same as another."""
    request = entry.request
    who = request.get("user") or "ANONYMOUS", request.get("client_id") or "<none>"
    return *who, request["request_id"], request["operation"], request["topics"]


def _levels(user: str, client: str) -> list[tuple[Entity, Tags]]:
    both, of_user, of_client = (user, client), (user, ""), ("", client)
    return [
        ((user, client), both),
        ((user, None), both),
        ((user, ABSENT), of_user),
        ((None, client), both),
        ((None, None), both),
        ((None, ABSENT), of_user),
        ((ABSENT, client), of_client),
        ((ABSENT, None), of_client),
    ]


def _gain(bounds: Bounds, elapsed_ms: int) -> Fraction:
    return Fraction(elapsed_ms, 1000) * Fraction(bounds[0])


def _rounding(tokens: Fraction) -> Fraction:
    """A debt this small counts as none: 1e-9, and 1e-12 of what was stored."""
    return Fraction(1, 10**9) + abs(tokens) / 10**12


def _in_debt(tokens: Fraction, stored: Fraction) -> bool:
    return tokens < -_rounding(stored)


def _waits(tokens: Fraction, rate: float) -> tuple[int, int]:
    """-K / R in ms, rounded up: what rounding leaves in doubt may be taken off first, and nothing may be added."""
    wait, doubt = -tokens / Fraction(rate) * 1000, 2 * _rounding(tokens) / Fraction(rate) * 1000
    low, high = (min(MAX_INT, max(0, math.ceil(each))) for each in (wait - doubt, wait))
    return low, high
