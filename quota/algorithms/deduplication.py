"""Deduplication: an admitted request that is sent again, for example by a gateway after a crash, is not charged again.

A bucket remembers for a while which requests it has admitted. A repeat is recognised by everything that its sender
wrote, not by its `request_id` alone: an id alone would let a client pay for one partition and get a thousand.
"""

from dataclasses import dataclass
from hashlib import blake2b

import msgspec

from quota.records import codec
from quota.records.record import Source
from quota.records.request import MutationRequest

_DIGEST_BYTES = 16


class AdmittedRequest(msgspec.Struct, frozen=True):
    """A request that a bucket has admitted."""

    source: Source
    """The position of the request that was decided first, which identifies its decision."""
    timestamp: int
    """The latest timestamp of the request and its repeats [epoch ms]."""
    topics: int
    """The number of topics that were admitted: the first ones, since none is admitted after a rejected one."""


AdmittedRequests = dict[bytes, AdmittedRequest]
"""Admitted requests by their digest, in the order in which they were seen last."""


@dataclass(frozen=True, slots=True)
class Deduplication:
    """The time for which requests are remembered [ms] (0: not at all), and their maximum number in a bucket."""

    window_ms: int = 0
    max_requests: int = 1000

    def find(self, admitted: AdmittedRequests, digest: bytes, now: int) -> AdmittedRequest | None:
        """Return the entry of the same request, None if it was not seen in the window before `now` (epoch ms)."""
        found = admitted.get(digest)
        return found if found is not None and now - found.timestamp <= self.window_ms else None

    def add(self, admitted: AdmittedRequests, digest: bytes, entry: AdmittedRequest) -> None:
        """Remember a request that was admitted.

        Those that were seen longest ago are forgotten if they have expired, or are too many. The others are not
        searched for expired ones, which `find` ignores: each charge would take as long as many are remembered.
        """
        admitted.pop(digest, None)
        admitted[digest] = entry
        since = entry.timestamp - self.window_ms
        while len(admitted) > self.max_requests or next(iter(admitted.values())).timestamp < since:
            del admitted[next(iter(admitted))]


NO_DEDUPLICATION = Deduplication()
"""Every request is charged."""


def digest_of(request: MutationRequest) -> bytes:
    """Return the digest of a request's sender and mutations; timing fields are excluded."""
    content = (request.user, request.client_id, request.request_id, request.operation, request.topics)
    return blake2b(codec.encode(content), digest_size=_DIGEST_BYTES).digest()
