"""Deduplication: an admitted request that is sent again, for example by a gateway after a crash, is not charged again.

One that its sender withdraws is charged nothing: it is given back, and forgotten.

A bucket remembers for a while which requests it has admitted. A repeat is recognised by everything that its sender
wrote, not by its `request_id` alone: an id alone would let a client pay for one partition and get a thousand.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from struct import Struct

import msgspec
from msgspec.structs import replace

from quota.records import codec
from quota.records.decision import Withdrawal
from quota.records.quota_log import Quota
from quota.records.record import Source
from quota.records.request import MutationRequest

_DIGEST_BYTES = 16
_ENTRY = Struct("<iiqqi")
"""The index of the topic, partition, offset, timestamp, and the number of admitted topics."""
_CHARGE = Struct("<dq")
"""The charge, and the attempt."""
_NO_LIMIT, _SEVERAL = -1, -2
"""`_NO_LIMIT`, `_SEVERAL`: the attempt of a request without a time limit, and that of one with several."""
_WINDOWS_KEPT = 2
"""How many windows a charge can be withdrawn: a sender that waits for one is late with its withdrawal."""


class AdmittedRequest(msgspec.Struct, frozen=True):
    """A request that a bucket has admitted."""

    source: Source
    """The position of the request that was decided first, which identifies its decision."""
    timestamp: int
    """The latest timestamp of the request and its repeats [epoch ms]."""
    topics: int
    """The number of topics up to the last admitted one: none is admitted after one that was rejected for a debt."""
    charge: float = 0.0
    """What it and its repeats were charged [mutations]."""
    attempt: int = 0
    """The only attempt that was charged or repeated (`attempt_of`); 0 if a program without withdrawals admitted it."""


class AdmittedRequests:
    """Admitted requests by their digest, in the order in which they were seen last.

    A batch reads and writes all of a bucket, and asks for few: the requests stay bytes, as they are stored, and only
    those that are asked for are decoded.
    """

    __slots__ = ("_charges", "_digests", "_entries", "_topics")

    def __init__(
        self, digests: bytes = b"", entries: bytes = b"", topics: tuple[str, ...] = (), charges: bytes = b""
    ) -> None:
        """Take over stored requests; none by default. The charges of the first ones may be missing."""
        self._digests, self._entries, self._topics = bytearray(digests), bytearray(entries), list(topics)
        self._charges = bytearray(len(self) * _CHARGE.size - len(charges)) + charges

    def stored(self) -> tuple[bytes, bytes, tuple[str, ...], bytes]:
        """Return digests, entries, the topics of their sources and charges, as `AdmittedRequests` takes them."""
        return bytes(self._digests), bytes(self._entries), tuple(self._topics), bytes(self._charges)

    def __eq__(self, other: object) -> bool:
        """Return whether the same requests are remembered, in the same order."""
        return isinstance(other, AdmittedRequests) and self.stored() == other.stored()

    __hash__ = None  # type: ignore[assignment]  # they change

    def __len__(self) -> int:
        return len(self._digests) // _DIGEST_BYTES

    def find(self, digest: bytes) -> AdmittedRequest | None:
        """Return a request, if it is remembered."""
        index = self._index(digest)
        if index is None:
            return None
        topic, partition, offset, timestamp, topics = _ENTRY.unpack_from(self._entries, index * _ENTRY.size)
        charged = _CHARGE.unpack_from(self._charges, index * _CHARGE.size)
        return AdmittedRequest(Source(self._topics[topic], partition, offset), timestamp, topics, *charged)

    def put(self, digest: bytes, request: AdmittedRequest, rule: "Deduplication", *, is_new: bool) -> None:
        """Remember a request as the last one, and no longer at its old place unless it `is_new`.

        Those that were seen longest ago are forgotten if they have expired, or are too many. The others are not
        searched for expired ones: each charge would take as long as many are remembered.
        """
        if not is_new:
            self.forget(digest)
        source, topic = request.source, self._place_of(request.source.topic)
        entries = self._entries
        self._digests += digest
        entries += _ENTRY.pack(topic, source.partition, source.offset, request.timestamp, request.topics)
        self._charges += _CHARGE.pack(request.charge, request.attempt)
        first, since = max(len(self) - rule.max_requests, 0), request.timestamp - _WINDOWS_KEPT * rule.window_ms
        while _ENTRY.unpack_from(entries, first * _ENTRY.size)[3] < since:  # the last one is the request itself
            first += 1
        if first:
            self._delete(0, first)

    def forget(self, digest: bytes) -> None:
        """Forget a request, if it is remembered."""
        if (index := self._index(digest)) is not None:
            self._delete(index, index + 1)

    def _place_of(self, topic: str) -> int:
        """Return the index of a topic, adding it; before, those of forgotten requests are removed if they are most."""
        if topic not in self._topics:
            if len(self._topics) > 2 * len(self):
                kept = [(self._topics[index], *others) for index, *others in _ENTRY.iter_unpack(self._entries)]
                self._topics = [*dict.fromkeys(name for name, *_ in kept)]
                self._entries = bytearray().join(_ENTRY.pack(self._topics.index(name), *rest) for name, *rest in kept)
            self._topics.append(topic)
        return self._topics.index(topic)

    def _index(self, digest: bytes) -> int | None:
        at = self._digests.find(digest)
        while at > 0 and at % _DIGEST_BYTES:  # the end of one digest and the beginning of the next
            at = self._digests.find(digest, at + 1)
        return None if at < 0 else at // _DIGEST_BYTES

    def _delete(self, first: int, end: int) -> None:
        del self._digests[first * _DIGEST_BYTES : end * _DIGEST_BYTES]
        del self._entries[first * _ENTRY.size : end * _ENTRY.size]
        del self._charges[first * _CHARGE.size : end * _CHARGE.size]


@dataclass(frozen=True, slots=True)
class Deduplication:
    """The time for which requests are remembered [ms] (0: not at all), and their maximum number in a bucket."""

    window_ms: int = 0
    max_requests: int = 1000

    def identify(
        self, remembered: AdmittedRequests, request: MutationRequest, quota: Quota, now: int
    ) -> tuple[bytes, Quota]:
        """Return the digest by which a request is remembered, empty without deduplication, and the quota for it.

        What was admitted in full before its quota got the limit is not rejected by it: it is charged, and may exist.
        """
        digest, limit = digest_of(request) if self.window_ms else b"", quota.max_request_mutations
        if not digest or limit is None:
            return digest, quota
        exceeding = [number for number, topic in enumerate(request.topics) if topic.partitions > limit]
        known = remembered.find(digest) if exceeding else None
        if known and (request.withdraws or (self.repeated(known, now) and known.topics == len(request.topics))):
            return digest, replace(quota, max_request_mutations=None)
        return digest_of(request, exceeding) if exceeding else digest, quota

    def repeated(self, known: AdmittedRequest | None, now: int) -> AdmittedRequest | None:
        """Return a known request if it was seen in the window before `now` (epoch ms)."""
        return known if known is not None and now - known.timestamp <= self.window_ms else None

    def withdrawn(
        self, known: AdmittedRequest | None, request: MutationRequest, source: Source, now: int
    ) -> Withdrawal:
        """Return what a withdrawal at a position gives back of a known request of its own partition.

        Nothing if there was another attempt than the one that is withdrawn: somebody may act on that one.
        """
        if (
            known is None
            or known.attempt != attempt_of(request)
            or now - known.timestamp > _WINDOWS_KEPT * self.window_ms
            or (known.source.topic, known.source.partition) != (source.topic, source.partition)
        ):
            return Withdrawal()
        return Withdrawal(str(known.source), known.charge)


NO_DEDUPLICATION = Deduplication()
"""Every request is charged."""


def attempt_of(request: MutationRequest, earlier: AdmittedRequest | None = None) -> int:
    """Return what tells a request from others with its digest, its time limit; `earlier` is one that it repeats.

    Two gateways may choose the same limit; without one, those of one sender are not told apart. An observed request
    has happened.
    """
    # Never 0, which is that of what a program without withdrawals has admitted.
    attempt = _NO_LIMIT if request.expires_at is None else max(request.expires_at, 1)
    is_only = request.observed is None and (earlier is None or attempt == earlier.attempt == _NO_LIMIT)
    return attempt if is_only else _SEVERAL


def digest_of(request: MutationRequest, exceeding: Sequence[int] = ()) -> bytes:
    """Return the digest of a request's sender and mutations; timing fields are excluded.

    It tells which topics exceed the limit: with another limit that admits them, they are not charged yet.
    """
    content: tuple[object, ...]
    content = (request.user, request.client_id, request.request_id, request.operation, request.topics)
    return blake2b(codec.encode((*content, exceeding) if exceeding else content), digest_size=_DIGEST_BYTES).digest()
