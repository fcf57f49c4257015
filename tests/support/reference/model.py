"""The decisions that the rules require for a log: in fractions, parsed by JSON's own module, without code of `quota`.

The model is plain on purpose: each bucket is played from its beginning, and each quota is looked up in the changes of
its levels. It allows for the job's floats in two places only: small debts that count as none, and rounded throttle
times.
"""

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

from tests.support.reference.log import ABSENT, TOPIC, Change, Entity, Entry, Log, Reset

Tags = tuple[str, str]
Bounds = tuple[float, float | None]
"""Rate and burst of a quota; a burst of None is that of the window."""

STRICT_SINCE = {"CREATE_TOPICS": 6, "CREATE_PARTITIONS": 3, "DELETE_TOPICS": 5}
MAX_INT = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Expected:
    """A decision as the rules require it. The throttle time lies between two bounds that differ by rounding only."""

    tags: Tags
    rate: float | None
    admitted: tuple[bool, ...]
    before: Fraction | None
    after: Fraction | None
    throttle_ms: tuple[int, int]
    repeats: tuple[str, int] | None = None
    """The decision that admitted the same request before, and the number of its admitted topics."""
    withdraws: str | None = None
    """The decision whose charge is given back."""


@dataclass(frozen=True, slots=True)
class _Admitted:
    """A request that a bucket has admitted: its identity, the decision, its time and topics, partition and charge.

    `attempt` is its time limit, by which alone it can be withdrawn; that of one with several is "several".
    """

    identity: tuple[object, ...]
    decision_id: str
    at: int
    topics: int
    partition: int
    charge: Fraction
    attempt: object


@dataclass(frozen=True, slots=True)
class _Bucket:
    """A stored bucket, and the requests that it remembers in the order in which they were seen last."""

    tokens: Fraction
    at: int
    bounds: Bounds
    reset: int | None
    admitted: Sequence[_Admitted]
    partition: int
    """The partition of the request that wrote `at`."""


@dataclass(slots=True)
class Reference:
    """A model that decides requests one by one, in the order of the calls."""

    log: Log
    _buckets: dict[Tags, _Bucket] = field(default_factory=dict)
    _changes: dict[Entity, list[Change]] = field(default_factory=dict)
    _resets: list[Reset] = field(default_factory=list)
    _moments: dict[tuple[Entity, ...], list[int]] = field(default_factory=dict)
    """Times of all changes of some entities, in order."""

    def __post_init__(self) -> None:
        for change in self.log.changes:
            if isinstance(change, Reset):
                self._resets.append(change)
            else:
                self._changes.setdefault(change.entity, []).append(change)

    def decide(self, entry: Entry, offset: int) -> Expected:
        """Return the decision on a request; all requests before it must have been decided."""
        request, now = entry.request, entry.timestamp
        user, client = _who(entry)
        costs = [topic["partitions"] for topic in request["topics"]]
        quota = self._quota(user, client, now)
        if quota is None:
            return Expected(("", ""), None, (True,) * len(costs), None, None, (0, 0))
        tags, bounds = quota
        bucket = self._buckets.get(tags)
        reset = self._reset(tags, now)
        if bucket is not None and reset is not None and (bucket.reset is None or bucket.reset < reset):
            bucket = None
        if bucket is not None and now < bucket.at and bucket.partition == entry.partition:
            bucket = replace(bucket, at=now)  # the partition's clock was set back
        before = self._tokens(bucket, bounds, self._since(tags, bounds, user, client, now), now)
        if request.get("validate_only"):
            withdrawn, after = self._give_back(tags, bucket, bounds, before, entry)
            return Expected(tags, bounds[0], (True,) * len(costs), before, after, (0, 0), None, withdrawn)
        stored = before if bucket is None else bucket.tokens
        strict = request["api_version"] >= STRICT_SINCE[request["operation"]]
        remembered = () if bucket is None else bucket.admitted
        first = self._find(remembered, entry)
        free = 0 if first is None else first.topics
        charged, after = _charge(costs[free:], before, stored, strict=strict)
        admitted = (*[True] * free, *charged)
        throttled = not all(admitted) if strict else _in_debt(after, stored)
        if any(charged) or first is not None:
            remembered = self._remember(remembered, first, entry, offset, sum(admitted), before - after)
        if bucket is None:
            bucket = _Bucket(after, now, bounds, reset, remembered, entry.partition)
        elif now < bucket.at:
            bucket = replace(bucket, tokens=after, admitted=remembered)
        elif any(charged) or bucket.bounds != bounds:
            bucket = _Bucket(after, now, bounds, bucket.reset, remembered, entry.partition)
        else:
            bucket = replace(bucket, admitted=remembered)
        self._buckets[tags] = bucket
        throttle = _throttle_ms(after, bucket.bounds[0], max(0, bucket.at - now)) if throttled else (0, 0)
        repeats = None if first is None else (first.decision_id, first.topics)
        return Expected(tags, bounds[0], admitted, before, after, throttle, repeats)

    def bucket_of(self, entry: Entry) -> Tags | None:
        """Return the tags of a request's bucket; None if it touches none."""
        quota = self._quota(*_who(entry), entry.timestamp)
        return None if quota is None else quota[0]

    def _find(self, remembered: Sequence[_Admitted], entry: Entry) -> _Admitted | None:
        """Return the same request as it was admitted before, if it was seen lately."""
        window, identity = self.log.deduplication.window_ms, _identity(entry)
        return next(
            (seen for seen in remembered if seen.identity == identity and entry.timestamp - seen.at <= window), None
        )

    def _give_back(
        self, tags: Tags, bucket: _Bucket | None, bounds: Bounds, before: Fraction, entry: Entry
    ) -> tuple[str | None, Fraction]:
        """Return the decision that a request withdraws, if it does, and the tokens with its charge."""
        known = bucket and entry.request.get("withdraws") and self._withdrawn(bucket.admitted, entry)
        if not bucket or not known:
            return None, before
        is_late, left = entry.timestamp < bucket.at, tuple(seen for seen in bucket.admitted if seen is not known)
        after = max(before, min(before + known.charge, self._burst(bucket.bounds if is_late else bounds)))
        written = replace(bucket, tokens=after, admitted=left)
        if not is_late:
            written = replace(written, at=entry.timestamp, bounds=bounds, partition=entry.partition)
        self._buckets[tags] = written
        return known.decision_id, after

    def _withdrawn(self, remembered: Sequence[_Admitted], entry: Entry) -> _Admitted | None:
        """Return the request that is withdrawn: the same one of its partition, for twice as long as it has repeats."""
        window, attempt = self.log.deduplication.window_ms, entry.request.get("expires_at")
        withdrawn = _identity(entry), entry.partition, attempt
        return next(
            (
                seen
                for seen in remembered
                if (seen.identity, seen.partition, seen.attempt) == withdrawn
                and entry.timestamp - seen.at <= 2 * window
            ),
            None,
        )

    def _remember(  # noqa: PLR0913, PLR0917
        self,
        remembered: Sequence[_Admitted],
        first: _Admitted | None,
        entry: Entry,
        offset: int,
        topics: int,
        charge: Fraction,
    ) -> Sequence[_Admitted]:
        """Return what a bucket remembers after a charge or a repeat: the requests seen last, none too long ago."""
        rule = self.log.deduplication
        if not rule.window_ms:
            return ()
        decision_id = f"{TOPIC}-{entry.partition}-{offset}"
        attempt = entry.request.get("expires_at")
        seen = _Admitted(_identity(entry), decision_id, entry.timestamp, topics, entry.partition, charge, attempt)
        if first is not None:
            both = None if attempt is None and first.attempt is None else "several"
            at, charge = max(first.at, entry.timestamp), first.charge + charge
            seen = replace(first, at=at, topics=topics, charge=charge, attempt=both)
        others = [admitted for admitted in remembered if admitted.identity != seen.identity]
        latest = [*others, seen][-rule.max_requests :]
        while seen.at - latest[0].at > 2 * rule.window_ms:
            latest = latest[1:]
        return latest

    def _tokens(self, bucket: _Bucket | None, bounds: Bounds, since: int, now: int) -> Fraction:
        if bucket is None:
            return self._burst(bounds)
        if now < bucket.at:
            return min(bucket.tokens, self._burst(bucket.bounds))
        changed_at = max(since, bucket.at) if bucket.bounds != bounds else bucket.at
        tokens = bucket.tokens
        if bucket.bounds != bounds:
            tokens = min(tokens + _gain(bucket.bounds, changed_at - bucket.at), self._burst(bucket.bounds))
        return min(tokens + _gain(bounds, now - changed_at), self._burst(bounds))

    def _burst(self, bounds: Bounds) -> Fraction:
        rate, own = bounds
        window = self.log.window
        return Fraction(rate) * window.num * window.size_seconds if own is None else Fraction(own)

    def _quota(self, user: str, client: str, at: int) -> tuple[Tags, Bounds] | None:
        """Return the quota of the most specific of the eight levels that has one, and the tags of its bucket."""
        for entity, tags in _levels(user, client):
            bounds = self._set(entity, at)
            if bounds is not None:
                return tags, bounds
        return None

    def _set(self, entity: Entity, at: int) -> Bounds | None:
        """Return the quota set for an entity as of `at`; of two changes at one time the later one counts."""
        changes = self._changes.get(entity, [])
        number = bisect_right(changes, at, key=lambda change: change.moment)
        if not number or changes[number - 1].rate is None:
            return None
        return changes[number - 1].rate, changes[number - 1].burst

    def _since(self, tags: Tags, bounds: Bounds, user: str, client: str, at: int) -> int:
        """Return the time since which the bucket has had these bounds, from whichever of its levels."""
        sharing = tuple(entity for entity, shared in _levels(user, client) if shared == tags)
        if sharing not in self._moments:
            self._moments[sharing] = sorted(
                {change.moment for entity in sharing for change in self._changes.get(entity, [])}
            )
        moments = self._moments[sharing]
        since = at
        for number in reversed(range(bisect_right(moments, at))):
            moment = moments[number]
            held = next((set_bounds for entity in sharing if (set_bounds := self._set(entity, moment))), None)
            if held != bounds:
                break
            since = moment
        return since

    def _reset(self, tags: Tags, at: int) -> int | None:
        named = {name: tag for name, tag in zip(("user", "client-id"), tags, strict=True) if tag}
        moments = [reset.moment for reset in self._resets if reset.moment <= at and reset.tags.items() <= named.items()]
        return max(moments, default=None)


def _charge(costs: Sequence[int], tokens: Fraction, stored: Fraction, *, strict: bool) -> tuple[list[bool], Fraction]:
    admitted = []
    for cost in costs:
        admitted.append(not strict or not _in_debt(tokens, stored))
        tokens -= cost if admitted[-1] else 0
    return admitted, tokens


def _identity(entry: Entry) -> tuple[object, ...]:
    """Return the parts of a request in which repeats are equal."""
    request = entry.request
    return *_who(entry), request["request_id"], request["operation"], request["topics"]


def _who(entry: Entry) -> tuple[str, str]:
    return str(entry.request.get("user") or "ANONYMOUS"), str(entry.request.get("client_id") or "<none>")


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
    """Return the largest debt that counts as none: 1e-9, and 1e-12 of the stored tokens."""
    return Fraction(1, 10**9) + abs(tokens) / 10**12


def _in_debt(tokens: Fraction, stored: Fraction) -> bool:
    return tokens < -_rounding(stored)


def _throttle_ms(tokens: Fraction, rate: float, late_ms: int) -> tuple[int, int]:
    """Return the bounds of -K / Q in ms, rounded up: the job may subtract the rounding first, and may add nothing.

    A late request also waits until the time of the bucket.
    """
    wait, doubt = -tokens / Fraction(rate) * 1000, 2 * _rounding(tokens) / Fraction(rate) * 1000
    low, high = (min(MAX_INT, max(0, math.ceil(throttle)) + late_ms) for throttle in (wait - doubt, wait))
    return low, high
