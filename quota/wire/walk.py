"""The search for a field in a message that arrives in pieces: what comes before it is skipped, and never held."""

from collections.abc import Callable, Generator, Iterable, Sequence
from struct import calcsize
from typing import Any

from quota.wire.primitives import Malformed
from quota.wire.structs import FORMATS, Field, Struct

_MORE = 0x80
_MAX_SHIFT = 28  # bits that come before the fifth byte of a varint

Steps = Generator[int, bytes, Any]
"""Steps through a message: a number above 0 asks for that many bytes, and one below 0 skips as many."""
Skip = Callable[[], Steps]
"""Skips a part of a message; parts of fixed size are numbers of bytes instead."""
Plan = Sequence[int | Skip]
"""The parts of a message in their order."""


class Walk:
    """A walk through one message, up to the end of a plan."""

    def __init__(self, plan: Plan, size: int) -> None:
        """Begin at the start of a message of `size` bytes."""
        self._steps = _skip_all(plan)
        self._left = size
        self._held = b""
        self._wanted = 0
        self._next(b"")

    def feed(self, data: bytes) -> int | None:
        """Take the next bytes; return the offset in them at which the plan ends, or None if it does not."""
        at = 0
        while self._wanted:
            if self._wanted < 0:
                skipped = min(-self._wanted, len(data) - at)
                self._wanted += skipped
                at += skipped
                if self._wanted:
                    return None
                self._next(b"")
            else:
                end = at + self._wanted - len(self._held)
                self._held += data[at:end]
                if end > len(data):
                    return None
                held, self._held, at = self._held, b"", end
                self._next(held)
        return at

    def _next(self, taken: bytes) -> None:
        try:
            self._wanted = self._steps.send(taken) if taken else next(self._steps)
        except StopIteration:
            self._wanted = 0
        self._left -= abs(self._wanted)
        if self._left < 0:
            raise Malformed("a message claims more bytes than it has")


def plan_of(fields: Iterable[Field], *, tags: bool = False) -> Plan:
    """Return the plan that ends after these fields and, if there are `tags`, after the tagged fields behind them."""
    plan: list[int | Skip] = []
    for field in fields:
        part = _array(field) if field.array else _element(field, nullable=field.nullable)
        if isinstance(part, int) and plan and isinstance(plan[-1], int):
            plan[-1] += part
        else:
            plan.append(part)
    return [*plan, skip_tags] if tags else plan


def skip_tags() -> Steps:
    """Skip tagged fields, such as those of a header."""
    for _ in range((yield from _read_uvarint())):
        yield from _read_uvarint()
        size = yield from _read_uvarint()
        if size:
            yield -size


def _skip_all(plan: Plan) -> Steps:
    for part in plan:
        if isinstance(part, int):
            yield -part
        else:
            yield from part()


def _element(field: Field, *, nullable: bool) -> int | Skip:
    """Return the part of a field, or of one element of its array."""
    if field.struct is not None:
        return _struct(field.struct, nullable=nullable)
    if field.kind in FORMATS:
        return calcsize(FORMATS[field.kind])
    return _text(_length(compact=field.compact, short=field.kind == "string"))


def _struct(struct: Struct, *, nullable: bool) -> int | Skip:
    plan = plan_of(struct.fields, tags=struct.flexible)
    if len(plan) == 1 and isinstance(plan[0], int) and not nullable:
        return plan[0]

    def skip() -> Steps:
        if not (nullable and (yield 1)[0] > 0x7F):  # noqa: PLR2004 a negative byte is null
            yield from _skip_all(plan)

    return skip


def _text(length: Skip) -> Skip:
    def skip() -> Steps:
        size = yield from length()
        if size > 0:
            yield -size

    return skip


def _array(field: Field) -> Skip:
    length, element = _length(compact=field.compact, short=False), _element(field, nullable=False)

    def skip() -> Steps:
        count = yield from length()
        if count > 0 and isinstance(element, int):
            yield -count * element
        elif count > 0 and not isinstance(element, int):
            for _ in range(count):  # an element takes a byte at least, so the message ends it
                yield from element()

    return skip


def _length(*, compact: bool, short: bool) -> Skip:
    """Return the reader of a length, which is below 0 for null."""

    def read_compact() -> Steps:
        return (yield from _read_uvarint()) - 1

    def read() -> Steps:
        return int.from_bytes((yield 2 if short else 4), signed=True)

    return read_compact if compact else read


def _read_uvarint() -> Steps:
    value = shift = 0
    while True:
        byte = (yield 1)[0]
        value |= (byte & 0x7F) << shift
        if byte < _MORE:
            return value
        shift += 7
        if shift > _MAX_SHIFT:
            raise Malformed("a varint is longer than 5 bytes")
