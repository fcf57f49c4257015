"""Encodes and decodes the state of a bucket in the state store (`schemas.buckets.STATE`)."""

from typing import Any

import msgspec

from quota.algorithms.deduplication import AdmittedRequest
from quota.algorithms.token_bucket import Bucket
from quota.records.quota import Quota

State = tuple[Any, ...]


class _More(msgspec.Struct, omit_defaults=True):
    """The rest of a bucket in addition to its numbers. Names and defaults make it readable for other versions."""

    remembered: dict[bytes, AdmittedRequest] = {}


_decoder = msgspec.msgpack.Decoder(_More)
_encode = msgspec.msgpack.Encoder().encode


def decode_bucket(state: State) -> Bucket:
    """Return the bucket in a row of the state store."""
    tokens, updated_at, rate, burst, max_debt_ms, reset_at, more = state
    admitted = _decoder.decode(more).remembered if more else {}
    return Bucket(tokens, updated_at, Quota(rate, burst, max_debt_ms), reset_at, admitted)


def encode_bucket(bucket: Bucket) -> State:
    """Return the row of a bucket. `more` is null if there are no admitted requests to remember."""
    more = _encode(_More(dict(bucket.admitted_requests))) if bucket.admitted_requests else None
    return bucket.tokens, bucket.updated_at, *bucket.quota.bounds, bucket.reset_at, more
