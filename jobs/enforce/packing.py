"""What goes through Spark, packed into bytes: a request with its quota, and the state of a bucket.

PySpark converts structs value by value, in Python, but does not convert bytes, which halves the cost of a key
(docs/decisions/programs/0003-the-enforcing-query.md).
"""

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any

import msgspec

from quota.algorithms.deduplication import AdmittedRequests
from quota.algorithms.token_bucket import Bucket, Clock
from quota.records import codec
from quota.records.dead_letter import DeadLetter
from quota.records.levels import Resolution, ResolvedRequest
from quota.records.quota_log import Quota
from quota.records.record import Record, Source

BUCKET_PREFIX = '["'
"""The beginning of a bucket's key, which is JSON; the key of records without a bucket is their partition: [3]."""

_CACHED_BYTES = 4096


class _Request(msgspec.Struct, array_like=True):
    """A record, and either its error (a dead letter) or the quota that decides it, as JSON."""

    topic: str
    partition: int
    offset: int
    timestamp: int | None
    key: bytes | None
    value: bytes | None
    error: str | None
    resolution: bytes | None


_encode = msgspec.msgpack.Encoder().encode
_decode_request = msgspec.msgpack.Decoder(_Request).decode
_decode_resolution = msgspec.json.Decoder(Resolution).decode
_cached_resolution = lru_cache(maxsize=10_000)(_decode_resolution)


def pack_request(record: Record, resolved: ResolvedRequest | DeadLetter) -> dict[str, Any]:
    """Return a row of `schemas.buckets.RESOLVED`."""
    bucket, error, resolution = f"[{record.source.partition}]", None, None
    if isinstance(resolved, DeadLetter):
        error = resolved.error
    else:
        record = resolved.record  # with the time as of which it is decided
        resolution = codec.encode(resolved.resolution)
        if resolved.resolution.limit is not None:
            bucket = resolved.resolution.tags.key
    source, timestamp = record.source, record.timestamp if record.stamped else None
    packed = _Request(
        source.topic, source.partition, source.offset, timestamp, record.key, record.value, error, resolution
    )
    return {"bucket": bucket, "request": _encode(packed)}


def unpack_requests(packed: Iterable[bytes]) -> Iterator[tuple[Record, Resolution | str]]:
    """Yield each record with its resolution, or with the error of its dead letter."""
    for request in map(_decode_request, packed):
        source = Source(request.topic, request.partition, request.offset)
        stamped = request.timestamp is not None
        record = Record(source, request.timestamp or 0, request.value, request.key, stamped)
        yield record, (request.error or "") if request.resolution is None else _resolution(request.resolution)


def _resolution(encoded: bytes) -> Resolution:
    """Decode a resolution, cached because most requests of a bucket have the same, unless its names have megabytes."""
    return _cached_resolution(encoded) if len(encoded) <= _CACHED_BYTES else _decode_resolution(encoded)


class _More(msgspec.Struct, omit_defaults=True):
    """The rest of a bucket in addition to its numbers. Names and defaults make it readable for other versions."""

    digests: bytes = b""
    entries: bytes = b""
    topics: tuple[str, ...] = ()
    clock: Clock | None = None
    charges: bytes = b""


_decode_more = msgspec.msgpack.Decoder(_More).decode


def encode_bucket(bucket: Bucket) -> tuple[Any, ...]:
    """Return the row of a bucket (`schemas.buckets.STATE`)."""
    digests, entries, topics, charges = bucket.admitted_requests.stored()
    more = _encode(_More(digests, entries, topics, bucket.clock, charges))
    return bucket.tokens, bucket.updated_at, *bucket.quota.bounds, bucket.reset_at, more


def decode_bucket(state: tuple[Any, ...]) -> Bucket:
    """Return the bucket in a row of the state store."""
    tokens, updated_at, rate, burst, max_debt_ms, reset_at, encoded = state
    more = _decode_more(encoded) if encoded else _More()
    admitted = AdmittedRequests(more.digests, more.entries, more.topics, more.charges)
    return Bucket(tokens, updated_at, Quota(rate, burst, max_debt_ms), reset_at, admitted, more.clock)
