"""A bucket as the state store keeps it (`schemas.buckets.STATE`), and back."""

from typing import Any

import msgspec

from quota.algorithms.bucket import Bucket
from quota.algorithms.deduplication import AdmittedRequest

State = tuple[Any, ...]


class _More(msgspec.Struct, omit_defaults=True):
    """What a bucket has besides its numbers. Fields have names and defaults, so that other versions can read it."""

    remembered: dict[bytes, AdmittedRequest] = {}


_decoder = msgspec.msgpack.Decoder(_More)
_encode = msgspec.msgpack.Encoder().encode


def bucket_of(state: State) -> Bucket:
    """The bucket in a row of the state store."""
    tokens, updated_at, rate, burst, max_debt_ms, reset_at, more = state
    remembered = _decoder.decode(more).remembered if more else {}
    return Bucket(tokens, updated_at, rate, burst, max_debt_ms, reset_at, remembered)


def state_of(bucket: Bucket) -> State:
    """The row of a bucket; what few have takes no room in the others."""
    more = _encode(_More(dict(bucket.remembered))) if bucket.remembered else None
    return (
        bucket.tokens,
        bucket.updated_at,
        bucket.rate,
        bucket.burst,
        bucket.max_debt_ms,
        bucket.reset_at,
        more,
    )
