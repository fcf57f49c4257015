"""The waist between the two stages of `enforce`: a resolved request as a row, and back."""

from functools import lru_cache
from typing import Any

import msgspec

from quota import codec
from quota.dead_letter import dead_letter
from quota.decision import DeadLetter
from quota.record import Record, Source
from quota.resolution import Policy, ResolvedRequest, request_of
from quota.timeline import Resolution

Row = dict[str, Any]

_KEPT_LENGTH = 4096

_resolution_decoder = msgspec.json.Decoder(Resolution)


def record_of(row: Row) -> Record:
    """The record in a row of `schemas.kafka.RECORD`."""
    source = Source(row["topic"], row["partition"], row["offset"])
    stamped = row["timestamp"] is not None
    return Record(source, row["timestamp"] if stamped else 0, row["value"], row["key"], stamped)


def to_row(record: Row, resolved: ResolvedRequest | DeadLetter) -> Row:
    """A row of `schemas.buckets.RESOLVED`, from the row of the record."""
    if isinstance(resolved, DeadLetter):
        return {"bucket": _no_bucket(record), "request": {**record, "error": resolved.error}}
    resolution = resolved.resolution
    bucket = _no_bucket(record) if resolution.limit is None else resolution.tags.key
    return {"bucket": bucket, "request": {**record, "resolution": codec.encode(resolution).decode()}}


def from_row(request: Row, policy: Policy) -> ResolvedRequest | DeadLetter:
    """What `to_row` was given; the request is read anew from its bytes, which is cheaper than to carry it along."""
    record = record_of(request)
    if request["error"] is not None:
        return dead_letter(record, request["error"], policy.max_bytes)
    return ResolvedRequest(record, request_of(record, policy), _resolution(request["resolution"]))


def is_bucket(key: str) -> bool:
    """Whether a key is that of a bucket; what touches none goes by one of its own for each partition."""
    return key.startswith('["')


def _resolution(encoded: str) -> Resolution:
    """Most requests of a bucket are judged alike; names may be megabytes, and are not kept then."""
    return _kept_resolution(encoded) if len(encoded) <= _KEPT_LENGTH else _resolution_decoder.decode(encoded)


@lru_cache(maxsize=10_000)
def _kept_resolution(encoded: str) -> Resolution:
    return _resolution_decoder.decode(encoded)


def _no_bucket(record: Row) -> str:
    return f"[{record['partition']}]"
