"""The effects of a recorded request that is decided again by other quotas, windows or algorithms."""

from typing import NamedTuple

from quota.records.decision import Decision


def differing_fields(decision: Decision, recorded: Decision) -> tuple[str, ...]:
    """Return the fields in which two decisions on a request differ."""
    if decision == recorded:
        return ()
    names = Decision.__struct_fields__
    return tuple(name for name in names if getattr(decision, name) != getattr(recorded, name))


class Effect(NamedTuple):
    """The effect of a decision on its sender and on the controller; times are epoch ms."""

    user: str
    client_id: str
    timestamp: int
    retry_at: int
    """The time until which the sender is throttled [epoch ms]."""
    requests: int = 0
    rejected_requests: int = 0
    admitted: int = 0
    """The mutations that reach the controller."""
    rejected: int = 0
    """The mutations that do not."""
    newly_admitted: int = 0
    """The admitted mutations that were rejected when they were recorded."""
    newly_rejected: int = 0
    """The rejected mutations that were admitted when they were recorded."""

    @classmethod
    def of(cls, decision: Decision, recorded: Decision) -> "Effect":
        """Return the effect of a decision on a request, compared with the recorded decision."""
        admitted = decision.admitted
        costs = [0] * decision.free_topics + decision.costs
        topics = list(zip(costs, admitted, recorded.admitted, strict=True))
        return cls(
            recorded.user,
            recorded.client_id,
            recorded.timestamp,
            decision.retry_at,
            1,
            int(not all(admitted)),
            sum(cost for cost, now, _ in topics if now),
            sum(cost for cost, now, _ in topics if not now),
            sum(cost for cost, now, before in topics if now and not before),
            sum(cost for cost, now, before in topics if before and not now),
        )

    def counted_from(self, since: int) -> "Effect | None":
        """Return the effect from `since` (epoch ms) on.

        This is the rest of the throttle time for an earlier request; None if that is over.
        """
        if self.timestamp >= since:
            return self
        return Effect(self.user, self.client_id, since, self.retry_at) if self.retry_at > since else None
