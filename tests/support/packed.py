"""What stands in the binary columns around the stateful stage, by its layout."""

import msgspec


def packed(row, error=None, resolution=None):
    """A request as it goes into the stage: a row of `schemas.kafka.RECORD`, and what it is judged by (JSON)."""
    return msgspec.msgpack.encode([*row, error, None if resolution is None else resolution.encode()])


def answer_of(answer, decisions="decisions", dead_letters="dead-letters"):
    """Topic, key and value of an answer as it comes out."""
    topic = {b"d": decisions, b"l": dead_letters}[answer[:1]]
    length = int(answer[1:9])
    end = 9 + max(length, 0)
    return topic, (None if length < 0 else answer[9:end]), answer[end:]
