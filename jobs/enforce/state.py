"""The state of a bucket in the state store: its numbers, and the rest as bytes."""

from typing import Any

import msgspec

from quota.algorithms.deduplication import AdmittedRequests
from quota.algorithms.token_bucket import Bucket, Clock
from quota.records.quota_log import Quota


class _More(msgspec.Struct, omit_defaults=True):
    """The rest of a bucket in addition to its numbers. Names and defaults make it readable for other versions."""

    digests: bytes = b""
    entries: bytes = b""
    topics: tuple[str, ...] = ()
    clock: Clock | None = None


_encode = msgspec.msgpack.Encoder().encode
_more_decoder = msgspec.msgpack.Decoder(_More)


def encode_bucket(bucket: Bucket) -> tuple[Any, ...]:
    """Return the row of a bucket (`schemas.buckets.STATE`)."""
    more = _encode(_More(*bucket.admitted_requests.stored(), bucket.clock))
    return bucket.tokens, bucket.updated_at, *bucket.quota.bounds, bucket.reset_at, more


def decode_bucket(state: tuple[Any, ...]) -> Bucket:
    """Return the bucket in a row of the state store."""
    tokens, updated_at, rate, burst, max_debt_ms, reset_at, encoded = state
    more = _more_decoder.decode(encoded) if encoded else _More()
    admitted = AdmittedRequests(more.digests, more.entries, more.topics)
    return Bucket(tokens, updated_at, Quota(rate, burst, max_debt_ms), reset_at, admitted, more.clock)
