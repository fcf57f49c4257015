"""A request for a decision, and the reply to it, as the program that waits for it sees them."""

from dataclasses import dataclass

from quota.errors import ErrorCode
from quota.records.decision import Decision
from quota.records.request import MutationRequest


@dataclass(frozen=True, slots=True)
class DecisionRequest:
    """Mutations to be decided."""

    request: MutationRequest
    """The request without its `request_id` and `expires_at`."""
    timeout_ms: int
    """The time that the decision may take [ms]."""
    content_digest: bytes = b""
    """A digest of the mutations; empty if they are never requested again."""
    happens_once: bool = False
    """Whether the mutations can be carried out only once."""


@dataclass(frozen=True, slots=True)
class DecisionReply:
    """The decision on a `DecisionRequest`, or the reason why there is none; without both, none arrived in time."""

    decision: Decision | None = None
    waited_ms: int = 0
    """The time since the request [ms]."""
    decision_age_ms: int = 0
    """The age of the decision by the brokers' clock when it was written [ms]: its throttle time began then."""
    error_code: int = 0
    """Kafka's error of a request that became a dead letter or could not be written; 0 for none."""
    error: str = ""
    job_silent_ms: int = 0
    """Without a decision: the time for which no request of this program has been decided [ms]."""
    least_decision_ms: int = 0
    """Without a decision: the time that one takes at least, as far as is known [ms]."""
    was_requested: bool = True
    """Whether the request was written; not if it would not be decided in its time."""
    cause: str = ""
    """Without a decision: why none is made, if it is known, and what an operator does."""

    @property
    def is_invalid(self) -> bool:
        """Whether the request itself is wrong, so that it would be rejected again."""
        return self.error_code == ErrorCode.INVALID_REQUEST

    @property
    def throttle_ms(self) -> int:
        """The remaining throttle time of the decision [ms].

        The time for which the response was held back counts, as on a broker.
        """
        if self.decision is None:
            return 0
        passed = min(max(self.decision_age_ms, 0), self.waited_ms)
        return max(self.decision.throttle_time_ms - passed, 0)
