"""The interface of a quota algorithm: a state per bucket, and an admission per request."""

from collections.abc import Sequence
from typing import Protocol, TypeVar

import msgspec

from quota.algorithms.deduplication import AdmittedRequest
from quota.records.quota import Quota
from quota.timeline.resolution import ResolvedRequest

S = TypeVar("S", bound=msgspec.Struct)
"""The state that an algorithm keeps for one bucket."""


class Admission(msgspec.Struct, frozen=True):
    """The answer of an algorithm to one request."""

    admitted: Sequence[bool]
    """Whether each topic is admitted."""
    controller_throttle_ms: int = 0
    quota: Quota | None = None
    """The quota that was applied; None if the request is unlimited."""
    burst: float | None = None
    """The burst B that follows from it [mutations]."""
    tokens_before: float | None = None
    """The tokens before the request; None for an algorithm without tokens, or an unlimited request."""
    tokens: float | None = None
    """The tokens after it."""
    repeats: AdmittedRequest | None = None
    """The same request as it was admitted before; its topics are not charged again."""


class Algorithm(Protocol[S]):
    """A way to enforce a quota: a function of (state, request, quota, timestamp of the request) alone."""

    def admit(self, state: S | None, resolved: ResolvedRequest) -> tuple[S | None, Admission]:
        """Charge one request to a bucket.

        An unlimited request touches no bucket, and a validate-only request is not charged; both are admitted.

        Args:
            state: the state of the bucket; None if it was never charged.
            resolved: the request with its quota.

        Returns:
            The state afterwards, and the answer.
        """


def is_reset(seen: int | None, reset_at: int | None) -> bool:
    """Return whether an operator has reset a bucket since the last reset that it has `seen` (epoch ms)."""
    return reset_at is not None and (seen is None or seen < reset_at)
