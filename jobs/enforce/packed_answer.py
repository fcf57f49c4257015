"""Packed answers: the only output column of the stateful stage, which is binary.

It is described in docs/decisions/programs/0003-one-stream-through-one-waist.md. A packed answer is one byte for its
topic, eight digits for the length of the record key, the key, and the value.
"""

from pyspark.sql import Column
from pyspark.sql import functions as F

from quota.records import codec
from quota.records.dead_letter import DeadLetter
from quota.records.decision import Decision

_DECISION, _DEAD_LETTER = b"d", b"l"
_LENGTH = b"%08d"
_NO_KEY = -1
_HEAD = 1 + 8
_TO_THE_END = 2**31 - 1


def pack_answer(answer: Decision | DeadLetter, key: bytes | None) -> bytes:
    """Return an answer with its topic and its record key."""
    topic = _DECISION if isinstance(answer, Decision) else _DEAD_LETTER
    return topic + _LENGTH % (_NO_KEY if key is None else len(key)) + (key or b"") + codec.encode(answer)


def unpack_answer(answer: Column, decisions: str, dead_letters: str) -> list[Column]:
    """Return the columns of `schemas.kafka.ANSWER` from a packed answer.

    Args:
        answer: the packed answer.
        decisions: the topic of decisions.
        dead_letters: the topic of dead letters.
    """
    length = F.substring(answer, 2, _HEAD - 1).cast("string").cast("int")
    topic = F.when(F.substring(answer, 1, 1) == F.lit(_DECISION), decisions).otherwise(dead_letters)
    key = F.when(length >= 0, F.substring(answer, F.lit(_HEAD + 1), length))
    value = F.substring(answer, F.lit(_HEAD + 1) + F.greatest(length, F.lit(0)), F.lit(_TO_THE_END))
    return [topic.alias("topic"), key.alias("key"), value.alias("value")]
