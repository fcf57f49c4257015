"""The backtest of candidates: recorded requests are decided again by each, and the effects are counted."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from quota.admission.decide import decide_next
from quota.admission.policy import Policy
from quota.callbacks.timeline import CallbackTimeline
from quota.records.decision import Decision
from quota.timeline.levels import Resolution
from quota.whatif.backtest import Effect
from quota.whatif.rates import Algorithm
from quota.whatif.recorded import resolve_again, resolved_to
from quota.whatif.result import CandidateOutcome, Sender, Totals


@dataclass(frozen=True, slots=True)
class Candidate:
    """Quotas, an algorithm and a policy to evaluate."""

    name: str
    quotas: CallbackTimeline
    algorithm: Algorithm
    policy: Policy
    enforces_shadow: bool = True
    """Whether quotas in shadow are enforced, so that a candidate shows their effect; otherwise they stay in shadow."""

    def resolve(self, decision: Decision) -> Resolution:
        """Return the quota of a recorded request."""
        resolution = resolve_again(decision, self.quotas, self.policy)
        return resolution._replace(shadow=False) if self.enforces_shadow else resolution


_Sender: TypeAlias = tuple[str, str]
_COUNTS = ("requests", "rejected_requests", "admitted", "rejected", "newly_admitted", "newly_rejected")


def evaluate(
    decisions: Iterable[Decision],
    candidates: Sequence[Candidate],
    recorded_outcome: str,
    since: int | None = None,
    until: int | None = None,
) -> list[CandidateOutcome]:
    """Return the outcome of recorded decisions, and then that of each candidate; none if there are no decisions.

    The decisions of a bucket are in its order. Requests before `since` (epoch ms) only charge the buckets, and throttle
    times are cut at `until`.
    """
    replays = [_Replay(candidate) for candidate in candidates]
    outcomes = [EffectCounts() for _ in range(1 + len(replays))]
    for recorded in decisions:
        decided = (recorded, *(replay.decide(recorded) for replay in replays))
        for outcome, decision in zip(outcomes, decided, strict=True):
            effect = Effect.of(decision, recorded)
            counted = effect if since is None else effect.counted_from(since)
            if counted is not None:
                outcome.add(counted)
    if not any(outcome.all.counts["requests"] for outcome in outcomes):
        return []
    names = [recorded_outcome, *(candidate.name for candidate in candidates)]
    return [outcome.result(name, until) for name, outcome in zip(names, outcomes, strict=True)]


class _Replay:
    """The buckets of a candidate; senders without a limit have one of their own."""

    def __init__(self, candidate: Candidate) -> None:
        self._candidate = candidate
        self._states: dict[object, Any] = {}

    def decide(self, recorded: Decision) -> Decision:
        resolution = self._candidate.resolve(recorded)
        bucket = resolution.tags if resolution.limit else (recorded.user, recorded.client_id)
        resolved = resolved_to(recorded, resolution)
        state, decision = decide_next(self._states.get(bucket), resolved, self._candidate.algorithm)
        self._states[bucket] = state
        return decision


class _Load:
    """The counted effects of a sender, or of all of them."""

    def __init__(self) -> None:
        self.counts = Counter[str]()
        self._admitted = Counter[int]()  # by the second
        self._throttles: list[tuple[int, int]] = []

    def add(self, effect: Effect) -> None:
        for name in _COUNTS:
            self.counts[name] += getattr(effect, name)
        if effect.admitted:
            self._admitted[effect.timestamp // 1000] += effect.admitted

    def throttle(self, begin: int, end: int) -> None:
        if self._throttles and self._throttles[-1][0] <= begin <= self._throttles[-1][1]:
            self._throttles[-1] = (self._throttles[-1][0], max(end, self._throttles[-1][1]))
        elif begin < end:
            self._throttles.append((begin, end))

    def throttled_ms(self, until: int | None) -> int:
        """Return the time for which the sender was throttled; overlapping times, of several buckets, count once."""
        total, reached = 0, 0
        for begin, end in sorted(self._throttles):
            last = end if until is None else min(end, until)
            total += max(last - max(begin, reached), 0)
            reached = max(reached, end)
        return total

    def totals(self, throttled_ms: int) -> Totals:
        counts = {name: self.counts[name] for name in _COUNTS}
        return Totals(**counts, throttled_seconds=throttled_ms / 1000, peak=max(self._admitted.values(), default=0))


class EffectCounts:
    """Counts the effects of the recorded decisions, or of others on the same requests, in their order."""

    def __init__(self) -> None:
        self.all = _Load()
        self._senders: dict[_Sender, _Load] = {}

    def add(self, effect: Effect) -> None:
        """Add an effect."""
        sender = self._senders.get((effect.user, effect.client_id))
        if sender is None:
            sender = self._senders[effect.user, effect.client_id] = _Load()
        for load in (self.all, sender):
            load.add(effect)
        sender.throttle(effect.timestamp, effect.retry_at)

    def result(self, name: str, until: int | None = None) -> CandidateOutcome:
        """Return the totals under a name; throttle times are cut at `until` (epoch ms)."""
        throttled = {sender: load.throttled_ms(until) for sender, load in self._senders.items()}
        return CandidateOutcome(
            name,
            self.all.totals(sum(throttled.values())),
            sorted(
                self._results(throttled), key=lambda sender: (-sender.load.admitted - sender.load.rejected, sender.user)
            ),
        )

    def _results(self, throttled: dict[_Sender, int]) -> Iterator[Sender]:
        for sender, load in sorted(self._senders.items()):
            yield Sender(*sender, load.totals(throttled[sender]))
