"""What-if: recorded requests judged again, by other quotas, windows or algorithms."""

from typing import Any, NamedTuple, Protocol

from quota.admission import decide
from quota.algorithm import Algorithm
from quota.recorded import RecordedDecision
from quota.resolution import ResolvedRequest


class Verdict(NamedTuple):
    """What a request got: by topic whether it was admitted, until when (epoch ms) it was told to wait, and notes."""

    admitted: list[bool]
    retry_at: int
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
        return Verdict(recorded.admitted, recorded.retry_at)


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
        return Verdict(again.admitted, again.retry_at, differing(again, recorded))


def differing(again: RecordedDecision, recorded: RecordedDecision) -> tuple[str, ...]:
    """The fields in which two decisions on a request are not the same."""
    if again == recorded:
        return ()
    return tuple(name for name in RecordedDecision.__struct_fields__ if getattr(again, name) != getattr(recorded, name))


class Effect(NamedTuple):
    """What a verdict comes to, for a sender and for the controller."""

    user: str
    client_id: str
    second: int
    """Of the request, since the epoch."""
    requests: int
    refused_requests: int
    """In which a topic was refused."""
    admitted: int
    """Mutations that reach the controller."""
    refused: int
    throttled_ms: int
    """How much longer its sender was told to wait; times that overlap count once."""
    newly_admitted: int
    """Mutations that were refused when they were recorded."""
    newly_refused: int


class Effects:
    """The effects of verdicts on the requests of one bucket, in order."""

    def __init__(self) -> None:
        """Nobody waits."""
        self._waiting: dict[tuple[str, str], int] = {}  # by sender, until when it was told to wait, epoch ms

    def of(self, recorded: RecordedDecision, verdict: Verdict) -> Effect:
        """The effect of the next verdict."""
        charges = recorded.charges
        costs = [0] * (len(recorded.topics) - len(charges)) + charges
        judged = list(zip(costs, verdict.admitted, recorded.admitted, strict=True))
        sender = (recorded.user, recorded.client_id)
        waiting = max(self._waiting.get(sender, 0), recorded.timestamp)
        self._waiting[sender] = max(waiting, verdict.retry_at)
        return Effect(
            *sender,
            recorded.timestamp // 1000,
            1,
            int(not all(verdict.admitted)),
            sum(cost for cost, admitted, _ in judged if admitted),
            sum(cost for cost, admitted, _ in judged if not admitted),
            self._waiting[sender] - waiting,
            sum(cost for cost, admitted, before in judged if admitted and not before),
            sum(cost for cost, admitted, before in judged if before and not admitted),
        )
