"""Requests that were sent twice, as by a gateway that crashed: what was admitted once is not charged again.

A bucket remembers for a while which requests it has admitted. The same request again is known by all that its sender
said of it, its `request_id` included: an id alone would let a client pay for one partition and get a thousand.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b

import msgspec

from quota.records import codec
from quota.records.request import MutationRequest

_DIGEST_BYTES = 16


class AdmittedRequest(msgspec.Struct, frozen=True, array_like=True):
    """What a bucket remembers of a request: who admitted it when (epoch ms), and how many of its topics."""

    decision_id: str
    timestamp: int
    topics: int
    """How many were admitted: the first ones, since no topic is admitted behind one that is refused."""


AdmittedRequests = Mapping[bytes, AdmittedRequest]
"""By the digest of the request, in the order in which they were admitted."""


@dataclass(frozen=True, slots=True)
class Deduplication:
    """How long requests are remembered, in ms (0: not at all), and how many of a bucket at most."""

    window_ms: int = 0
    most: int = 1000

    def first(self, remembered: AdmittedRequests, request: MutationRequest, now: int) -> AdmittedRequest | None:
        """What was answered to this very request within the window before `now` (epoch ms)."""
        if not (self.window_ms and remembered):
            return None
        answered = remembered.get(_digest(request))
        return answered if answered is not None and now - answered.timestamp <= self.window_ms else None

    def remember(
        self, remembered: AdmittedRequests, request: MutationRequest, answered: AdmittedRequest
    ) -> AdmittedRequests:
        """What is remembered once a request is answered; what is too old by then, or too much, is forgotten."""
        digest = _digest(request)
        since = answered.timestamp - self.window_ms
        kept = {key: each for key, each in remembered.items() if each.timestamp >= since}
        kept[digest] = answered
        while len(kept) > self.most:
            del kept[next(iter(kept))]
        return kept


NO_DEDUPLICATION = Deduplication()
"""Each request is charged."""


def _digest(request: MutationRequest) -> bytes:
    """Of what is asked for by whom, and not of how long it took to come here."""
    said = (request.user, request.client_id, request.request_id, request.operation, request.topics)
    return blake2b(codec.encode(said), digest_size=_DIGEST_BYTES).digest()
