"""The waist between the two stages of `enforce`: a resolved request as a row, and back."""

from typing import Any

import msgspec

from quota.bucket import Limit
from quota.dead_letter import dead_letter
from quota.decision import DeadLetter
from quota.entity import QuotaEntity, Tags
from quota.record import Record, Source
from quota.request import read_request
from quota.resolution import ResolvedRequest
from quota.timeline import UNLIMITED, Resolution

Row = dict[str, Any]

_tags_decoder = msgspec.json.Decoder(Tags)
_entity_decoder = msgspec.json.Decoder(QuotaEntity)


def record_of(row: Row) -> Record:
    """The record in a row of `schemas.kafka.RECORD`."""
    source = Source(row["topic"], row["partition"], row["offset"])
    return Record(source, row["timestamp"], row["value"], row["key"])


def to_row(record: Row, resolved: ResolvedRequest | DeadLetter) -> Row:
    """A row of `schemas.buckets.RESOLVED`, from the row of the record."""
    if isinstance(resolved, DeadLetter):
        return {"bucket": _no_bucket(record), "request": {**record, "error": resolved.error}}
    resolution = resolved.resolution
    if resolution.limit is None or resolution.entity is None:
        return {"bucket": _no_bucket(record), "request": record}
    quota = {
        "rate": resolution.limit.rate,
        "since": resolution.limit.since,
        "entity": resolution.entity.key.decode(),
    }
    return {"bucket": resolution.tags.key, "request": {**record, **quota}}


def from_row(bucket: str, request: Row, max_bytes: int) -> ResolvedRequest | DeadLetter:
    """What `to_row` was given; the request is read anew from its bytes, which is cheaper than to carry it along."""
    record = record_of(request)
    if request["error"] is not None:
        return dead_letter(record, request["error"], max_bytes)
    resolution = UNLIMITED
    if request["entity"] is not None:
        resolution = Resolution(
            _tags_decoder.decode(bucket),
            Limit(request["rate"], request["since"]),
            _entity_decoder.decode(request["entity"]),
        )
    return ResolvedRequest(record, read_request(request["value"]), resolution)


def is_bucket(key: str) -> bool:
    """Whether a key is that of a bucket; what touches none goes by one of its own for each partition."""
    return key.startswith('["')


def _no_bucket(record: Row) -> str:
    return f"[{record['partition']}]"
