"""What-if: recorded requests judged again, by other quotas, windows or algorithms."""

from typing import Any, NamedTuple, Protocol

from quota.admission.decide import decide
from quota.algorithms.algorithm import Algorithm
from quota.timeline.resolution import ResolvedRequest
from quota.whatif.recorded import RecordedDecision


class Verdict(NamedTuple):
    """What a request got."""

    admitted: list[bool]
    """By topic."""
    free: int
    """So many of the first topics cost nothing."""
    retry_at: int
    """Until when it was told to wait, epoch ms."""
    differing: tuple[str, ...] = ()
    """The fields in which it is not what was recorded."""


class Judge(Protocol):
    """Judges the requests of one bucket, in order."""

    def judge(self, recorded: RecordedDecision, resolved: ResolvedRequest | None) -> Verdict:
        """The next request of the bucket; resolved as far as it is judged anew."""


class AsRecorded:
    """What was decided."""

    def judge(self, recorded: RecordedDecision, resolved: ResolvedRequest | None) -> Verdict:  # noqa: ARG002 Judge's
        """As it was."""
        return Verdict(recorded.admitted, recorded.free, recorded.retry_at)


class Again:
    """Judging by an algorithm, from a bucket that was never charged on."""

    def __init__(self, algorithm: Algorithm[Any]) -> None:
        """With what judges."""
        self._algorithm = algorithm
        self._state: Any = None

    def judge(self, recorded: RecordedDecision, resolved: ResolvedRequest | None) -> Verdict:
        """By the fold that the jobs run.

        Raises:
            ValueError: it was not resolved.
        """
        if resolved is None:
            raise ValueError(f"{recorded.decision_id} has no quota to be judged by")
        self._state, (decision,) = decide(self._state, [resolved], self._algorithm)
        again = RecordedDecision.of(decision)
        return Verdict(again.admitted, again.free, again.retry_at, differing(again, recorded))


def differing(again: RecordedDecision, recorded: RecordedDecision) -> tuple[str, ...]:
    """The fields in which two decisions on a request are not the same."""
    if again == recorded:
        return ()
    return tuple(name for name in RecordedDecision.__struct_fields__ if getattr(again, name) != getattr(recorded, name))


class Effect(NamedTuple):
    """What a verdict comes to, for a sender and for the controller. Times are epoch ms."""

    user: str
    client_id: str
    timestamp: int
    retry_at: int
    """Until when the sender was told to wait."""
    requests: int = 0
    refused_requests: int = 0
    """In which a topic was refused."""
    admitted: int = 0
    """Mutations that reach the controller."""
    refused: int = 0
    newly_admitted: int = 0
    """Mutations that were refused when they were recorded."""
    newly_refused: int = 0
    """That were admitted then."""

    def since(self, moment: int) -> "Effect | None":
        """What of it counts from a moment on: of what was before, what is left of the wait."""
        if self.timestamp >= moment:
            return self
        return Effect(self.user, self.client_id, moment, self.retry_at) if self.retry_at > moment else None


def effect_of(recorded: RecordedDecision, verdict: Verdict) -> Effect:
    """The effect of a verdict on a request."""
    costs = [0 if number < verdict.free else each.partitions for number, each in enumerate(recorded.topics)]
    judged = list(zip(costs, verdict.admitted, recorded.admitted, strict=True))
    return Effect(
        recorded.user,
        recorded.client_id,
        recorded.timestamp,
        verdict.retry_at,
        1,
        int(not all(verdict.admitted)),
        sum(cost for cost, admitted, _ in judged if admitted),
        sum(cost for cost, admitted, _ in judged if not admitted),
        sum(cost for cost, admitted, before in judged if admitted and not before),
        sum(cost for cost, admitted, before in judged if before and not admitted),
    )
