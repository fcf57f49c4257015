"""What an algorithm of quotas is: a state of its own for each bucket, and a verdict on one request after the other."""

from collections.abc import Sequence
from typing import Generic, Protocol, TypeVar

import msgspec

from quota.algorithms.deduplication import AdmittedRequest
from quota.records.quota import Quota
from quota.timeline.resolution import ResolvedRequest

S = TypeVar("S", bound=msgspec.Struct)
"""An algorithm's state of one bucket."""


class Admission(msgspec.Struct, Generic[S], frozen=True):
    """What a bucket says to one request: its state afterwards, the topics it admits, and what it tells.

    The state is None where it was never charged; tokens are None where there are none, as in an algorithm
    that measures a rate.
    """

    state: S | None
    admitted: Sequence[bool]
    controller_throttle_ms: int
    tokens_before: float | None
    tokens: float | None
    first: AdmittedRequest | None = None
    """What was admitted of this very request before, and costs nothing now."""


Bounds = tuple[float, float, int | None]
"""What of a quota an algorithm goes by: mutations a second, mutations at once, and the longest debt in ms."""


class Algorithm(Protocol[S]):
    """How a quota is turned into verdicts. A function of (state, request, quota, the request's time), and no more."""

    def admit(self, state: S | None, resolved: ResolvedRequest) -> Admission[S]:
        """Charge one request to a bucket; None is one that was never charged.

        A request without a limit touches none, and one that is only to be validated is not charged:
        both are admitted.
        """

    def bounds(self, quota: Quota) -> Bounds:
        """What the decision says that it was judged by."""


def is_reset(followed: int | None, reset_at: int | None) -> bool:
    """Whether an operator has reset a bucket since the reset that it has followed last: it is as if never seen."""
    return reset_at is not None and (followed is None or followed < reset_at)
