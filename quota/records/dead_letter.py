"""A dead letter: an invalid record of the request topic, and why it is invalid."""

import base64

import msgspec

from quota.errors import BadRecord
from quota.records import codec
from quota.records.record import Int64, Record, Source


class DeadLetter(msgspec.Struct, frozen=True, kw_only=True):
    """An invalid record: the error, and the value as received (base64 if it is not UTF-8; then `error` states this)."""

    error: str
    """reason in a sentence, with the invalid field and its value"""
    value: str | None
    """value of the invalid record, in base64 if it is not UTF-8; null if it had none"""
    timestamp: Int64 | None
    """time of that record; null if its producer set it [epoch ms]"""
    source: Source
    """position of the invalid record in Kafka"""

    @property
    def original_value(self) -> bytes:
        """The value of the invalid record; only its beginning where it was too large."""
        value = self.value or ""
        return base64.b64decode(value) if self.error.startswith(codec.NOT_TEXT) else value.encode()


def make_dead_letter(record: Record, error: str, max_bytes: int) -> DeadLetter:
    """Return the dead letter of a record; it holds the beginning of a record over `max_bytes`, so that it fits."""
    value = record.value
    if value is not None and record.size > max_bytes:
        value = _beginning(value, max(0, max_bytes - len(record.key or b"")))
    return DeadLetter(
        error=error,
        value=None if value is None else codec.text(value),
        timestamp=record.timestamp if record.stamped else None,
        source=record.source,
    )


_decoder = msgspec.json.Decoder(DeadLetter)


def read_dead_letter(value: bytes | None) -> DeadLetter:
    """Parse a record of the dead letters topic."""
    return codec.decode(value, _decoder)


def _beginning(value: bytes, max_bytes: int) -> bytes:
    """Return the first bytes; text is not cut within a character."""
    cut = value[:max_bytes]
    try:
        codec.check_text(cut, whole=False)
    except BadRecord:
        return cut
    return cut.decode(errors="ignore").encode()
