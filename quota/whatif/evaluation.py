"""The backtest: recorded requests are decided again by other quotas, windows or algorithms, and the effects counted.

The requests come in a stream, of which nothing is kept but the buckets and the counts.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from msgspec.structs import replace

from quota.admission.decide import decide
from quota.admission.policy import Policy
from quota.admission.resolve import in_shadow, resolve_quota
from quota.callbacks.timeline import CallbackTimeline
from quota.records.decision import Decision
from quota.records.levels import Resolution, ResolvedRequest
from quota.records.record import Record
from quota.whatif.effects import CandidateOutcome, Effect, EffectCounts, Period
from quota.whatif.rejected_algorithms import Algorithm

_MAX_EXAMPLES = 5


class ReplayDifference(msgspec.Struct, frozen=True):
    """A decision that differs from the recorded one, and the fields in which it does."""

    decision_id: str
    fields: list[str]


class Replay(msgspec.Struct, frozen=True):
    """The extent to which the recorded quotas reproduce the recorded decisions."""

    decisions: int
    differing: int
    examples: list[ReplayDifference]


class Result(msgspec.Struct, frozen=True):
    """The result of a backtest."""

    replay: Replay | None
    """None for requests that were never decided."""
    outcomes: list[CandidateOutcome]
    """The outcome as recorded, or without quotas, and then that of each candidate."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """Quotas, an algorithm and a policy to evaluate."""

    name: str
    quotas: CallbackTimeline
    algorithm: Algorithm
    policy: Policy
    enforces_shadow: bool = True
    """Whether quotas in shadow are enforced, so that a candidate shows their effect; otherwise they stay in shadow."""
    first_state: Callable[[Decision, Resolution], Any] = lambda *_: None
    """Returns the state of a bucket before the first of the decisions; None for a full one."""

    def resolve(self, decision: Decision) -> Resolution:
        """Return the quota of a recorded request."""
        resolution = resolve_quota(decision.user, decision.client_id, decision.timestamp, self.quotas, self.policy)
        if decision.observed is not None:
            resolution = in_shadow(resolution)
        return resolution._replace(shadow=False) if self.enforces_shadow else resolution


def evaluate(
    decisions: Iterable[Decision],
    candidates: Sequence[Candidate],
    recorded_outcome: str,
    period: Period = Period(),  # noqa: B008 immutable
    *,
    reproduces: bool = False,
) -> Result:
    """Return the outcome of recorded decisions under a name, and that of each candidate; none if no request counts.

    The decisions of a bucket are in its order. With `reproduces` the first candidate should decide as recorded, and
    the result says whether it does.
    """
    replays = [_Replay(candidate) for candidate in candidates]
    outcomes = [EffectCounts(period) for _ in range(1 + len(replays))]
    differences = _Differences()
    for recorded in decisions:
        as_recorded = Effect.of(recorded, recorded)
        outcomes[0].add(as_recorded)
        for number, replay in enumerate(replays):
            again = replay.decide(recorded)
            differs = again != recorded
            outcomes[1 + number].add(Effect.of(again, recorded) if differs else as_recorded)
            if differs and reproduces and number == 0 and recorded.timestamp >= (period.since or 0):
                differences.add(again, recorded)
    names = [recorded_outcome, *(candidate.name for candidate in candidates)]
    results = [outcome.result(name) for name, outcome in zip(names, outcomes, strict=True)]
    requests = results[0].load.requests
    return Result(differences.result(requests) if reproduces else None, results if requests else [])


class _Replay:
    """The buckets of a candidate; senders without a limit have one of their own."""

    def __init__(self, candidate: Candidate) -> None:
        self._candidate = candidate
        self._states: dict[object, Any] = {}

    def decide(self, recorded: Decision) -> Decision:
        """Decide a request again; the bucket before it is the recorded one, since only answers are compared."""
        resolution = self._candidate.resolve(recorded)
        bucket = resolution.tags if resolution.limit else (recorded.user, recorded.client_id)
        resolved = resolved_to(recorded, resolution)
        if bucket not in self._states:
            self._states[bucket] = self._candidate.first_state(recorded, resolution)
        self._states[bucket], decision = decide(self._states[bucket], resolved, self._candidate.algorithm)
        before = recorded.bucket_before
        return decision if decision.bucket_before == before else replace(decision, bucket_before=before)


class _Differences:
    """The decisions that differ from the recorded ones: their number, and the first id of each sender."""

    def __init__(self) -> None:
        self._count = 0
        self._first: dict[tuple[str, str], ReplayDifference] = {}

    def add(self, decision: Decision, recorded: Decision) -> None:
        self._count += 1
        sender = recorded.user, recorded.client_id
        first = self._first.get(sender)
        if first is None or recorded.decision_id < first.decision_id:
            self._first[sender] = ReplayDifference(recorded.decision_id, decision.differing_fields(recorded))

    def result(self, decisions: int) -> Replay:
        examples = sorted(self._first.values(), key=lambda difference: difference.decision_id)
        return Replay(decisions, self._count, examples[:_MAX_EXAMPLES])


def resolved_to(decision: Decision, resolution: Resolution) -> ResolvedRequest:
    """Return a decision's request with this quota."""
    return ResolvedRequest(Record(decision.source, decision.timestamp, None), decision.request, resolution)
