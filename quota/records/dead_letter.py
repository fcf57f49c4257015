"""From a record that is no request to its dead letter."""

import base64

from quota.errors import BadRecord
from quota.records import codec
from quota.records.decision import DeadLetter
from quota.records.record import Record


def dead_letter(record: Record, error: str, max_bytes: int) -> DeadLetter:
    """The dead letter of a record; of a record over `max_bytes` it holds the beginning, so that it fits its topic."""
    value = record.value
    if value is not None and record.size > max_bytes:
        value = _beginning(value, max(0, max_bytes - len(record.key or b"")))
    return DeadLetter(
        error=error,
        value=None if value is None else codec.text(value),
        timestamp=record.timestamp if record.stamped else None,
        source=record.source,
    )


def check_size(record: Record, max_bytes: int) -> None:
    """Check a record by its size; the bytes behind `max_bytes` do not matter.

    Raises:
        BadRecord: the record is too large, or the beginning of such a one is not UTF-8.
    """
    if record.size > max_bytes:
        codec.check_text((record.value or b"")[:max_bytes], whole=False)
        raise BadRecord(f"value: a record of more than the {max_bytes} bytes that limits.max_request_bytes allows")


def _beginning(value: bytes, max_bytes: int) -> bytes:
    """The first bytes; of text no half of a character at the end."""
    cut = value[:max_bytes]
    try:
        codec.check_text(cut, whole=False)
    except BadRecord:
        return cut
    return cut.decode(errors="ignore").encode()


def value_of(letter: DeadLetter) -> bytes:
    """The record of a dead letter as it came; of one that was too large the beginning."""
    value = letter.value or ""
    return base64.b64decode(value) if letter.error.startswith(codec.NOT_TEXT) else value.encode()
