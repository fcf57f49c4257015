"""The waist around the stateful stage: what goes into it and what comes out, as one binary column each.

PySpark hands structs over value by value, in Python; bytes it hands over as they are, which is half of what a key
costs (docs/decisions/0003).
"""

from functools import lru_cache
from typing import Any

import msgspec
from pyspark.sql import Column
from pyspark.sql import functions as F

from quota.admission.policy import Policy
from quota.admission.resolve import request_of
from quota.records import codec
from quota.records.dead_letter import dead_letter
from quota.records.decision import DeadLetter
from quota.records.record import Record, Source
from quota.timeline.resolution import Resolution, ResolvedRequest

DECISION, DEAD_LETTER = b"d", b"l"
"""Which of the topics an answer is for: its first byte. Then come the length of the key, the key, and the value."""

_LENGTH = b"%08d"
_NO_KEY = -1
_HEAD = 1 + 8
_TO_THE_END = 2**31 - 1

_KEPT_LENGTH = 4096


class _Place(msgspec.Struct, array_like=True):
    topic: str
    partition: int
    offset: int
    timestamp: int | None


class _Packed(_Place, array_like=True):
    """A record, and why it is a dead letter, or else what it is judged by, as JSON."""

    key: bytes | None
    value: bytes | None
    error: str | None
    resolution: bytes | None


_encode = msgspec.msgpack.Encoder().encode
_packed_decoder = msgspec.msgpack.Decoder(_Packed)
_place_decoder = msgspec.msgpack.Decoder(_Place)
_resolution_decoder = msgspec.json.Decoder(Resolution)


def to_row(record: Record, resolved: ResolvedRequest | DeadLetter) -> dict[str, Any]:
    """A row of `schemas.buckets.RESOLVED`, and the error of a dead letter."""
    bucket, error, resolution = f"[{record.source.partition}]", None, None
    if isinstance(resolved, DeadLetter):
        error = resolved.error
    else:
        resolution = codec.encode(resolved.resolution)
        if resolved.resolution.limit is not None:
            bucket = resolved.resolution.tags.key
    source, timestamp = record.source, record.timestamp if record.stamped else None
    packed = _Packed(
        source.topic, source.partition, source.offset, timestamp, record.key, record.value, error, resolution
    )
    return {"bucket": bucket, "request": _encode(packed), "error": error}


def is_bucket(key: str) -> bool:
    """Whether a key is that of a bucket; what touches none goes by one of its own for each partition."""
    return key.startswith('["')


def place_of(request: bytes) -> Record:
    """Where and when a packed record stands, without what it holds."""
    place = _place_decoder.decode(request)
    return Record(Source(place.topic, place.partition, place.offset), place.timestamp or 0, None)


def unpack(request: bytes, policy: Policy) -> tuple[bytes | None, ResolvedRequest | DeadLetter]:
    """A record's key, and what `to_row` was given; the request is read anew from its bytes, which is cheaper."""
    packed = _packed_decoder.decode(request)
    stamped = packed.timestamp is not None
    source = Source(packed.topic, packed.partition, packed.offset)
    record = Record(source, packed.timestamp or 0, packed.value, packed.key, stamped)
    if packed.resolution is None:
        return packed.key, dead_letter(record, packed.error or "", policy.max_bytes)
    return packed.key, ResolvedRequest(record, request_of(record, policy), _resolution(packed.resolution))


def pack_answer(kind: bytes, key: bytes | None, value: bytes) -> bytes:
    """An answer, for one of the topics."""
    return kind + _LENGTH % (_NO_KEY if key is None else len(key)) + (key or b"") + value


def unpacked(answer: Column, decisions: str, dead_letters: str) -> list[Column]:
    """The columns of `schemas.kafka.ANSWER` from a packed answer."""
    length = F.substring(answer, 2, _HEAD - 1).cast("string").cast("int")
    topic = F.when(F.substring(answer, 1, 1) == F.lit(DECISION), decisions).otherwise(dead_letters)
    key = F.when(length >= 0, F.substring(answer, F.lit(_HEAD + 1), length))
    value = F.substring(answer, F.lit(_HEAD + 1) + F.greatest(length, F.lit(0)), F.lit(_TO_THE_END))
    return [topic.alias("topic"), key.alias("key"), value.alias("value")]


def _resolution(encoded: bytes) -> Resolution:
    """Most requests of a bucket are judged alike; names may be megabytes, and are not kept then."""
    return _kept_resolution(encoded) if len(encoded) <= _KEPT_LENGTH else _resolution_decoder.decode(encoded)


@lru_cache(maxsize=10_000)
def _kept_resolution(encoded: bytes) -> Resolution:
    return _resolution_decoder.decode(encoded)
