"""The search for a field in a message that arrives in pieces: what comes before it is skipped, and never held."""

from collections.abc import Callable, Generator, Iterable, Sequence
from functools import partial
from struct import calcsize

from quota.wire.primitives import Malformed
from quota.wire.schemas import FORMATS, Field, Struct

_SHORT = 0x80  # varints below are one byte
_MAX_SHIFT = 28  # bits that come before the fifth byte of a varint

Skip = Callable[["Walk"], Generator[None, None, None]]
"""Skips a part of a message; it yields when it needs a byte that has not arrived."""
Plan = Sequence[int | Skip]
"""The parts of a message in their order; those of fixed size are numbers of bytes."""


class Walk:
    """A walk through one message, up to the end of a plan."""

    def __init__(self, plan: Plan, size: int) -> None:
        """Begin at the start of a message of `size` bytes."""
        self.data = b""
        """The bytes that arrived last."""
        self.at = 0
        """The present offset in them; after a skip it may be behind their end."""
        self._left = size
        self._steps = _skip_all(self, plan)

    def feed(self, data: bytes) -> int | None:
        """Take the next bytes; return the offset in them at which the plan ends, or None if it does not."""
        self.at -= len(self.data)
        self._left -= len(self.data)
        self.data = data
        has_ended = next(self._steps, self) is self
        if self.at > self._left:
            raise Malformed("a message claims more bytes than it has")
        return self.at if has_ended and self.at <= len(data) else None


def plan_of(fields: Iterable[Field], *, tags: bool = False) -> Plan:
    """Return the plan that ends after these fields and, if there are `tags`, after the tagged fields behind them."""
    plan: list[int | Skip] = []
    for field in fields:
        part = _element(field, nullable=field.nullable and not field.array)
        if field.array:
            part = _sized(field, part, short=False)
        if isinstance(part, int) and plan and isinstance(plan[-1], int):
            plan[-1] += part
        else:
            plan.append(part)
    return [*plan, skip_tags] if tags else plan


def skip_tags(walk: Walk) -> Generator[None, None, None]:
    """Skip tagged fields, such as those of a header."""
    for _ in range((yield from _read_uvarint(walk))):
        yield from _read_uvarint(walk)
        size = yield from _read_uvarint(walk)
        walk.at += size


def _skip_all(walk: Walk, plan: Plan) -> Generator[None, None, None]:
    for part in plan:
        if isinstance(part, int):
            walk.at += part
        else:
            yield from part(walk)


def _element(field: Field, *, nullable: bool) -> int | Skip:
    """Return the part of a field, or of one element of its array."""
    if field.struct is not None:
        return _struct(field.struct, nullable=nullable)
    if field.kind in FORMATS:
        return calcsize(FORMATS[field.kind])
    return _sized(field, 1, short=field.kind == "string")


def _struct(struct: Struct, *, nullable: bool) -> int | Skip:
    plan = plan_of(struct.fields, tags=struct.flexible)
    if len(plan) == 1 and isinstance(plan[0], int) and not nullable:
        return plan[0]

    def skip(walk: Walk) -> Generator[None, None, None]:
        if not nullable or (yield from _read_byte(walk)) < _SHORT:  # a negative byte is null
            yield from _skip_all(walk, plan)

    return skip


def _sized(field: Field, element: int | Skip, *, short: bool) -> Skip:
    """Return the part of a length and as many elements."""
    read_length = _read_uvarint if field.compact else partial(_read_number, 2 if short else 4)
    least = int(field.compact)

    def skip(walk: Walk) -> Generator[None, None, None]:
        count = (yield from read_length(walk)) - least
        if count > 0 and isinstance(element, int):
            walk.at += count * element
        elif count > 0 and not isinstance(element, int):
            for _ in range(count):  # an element takes a byte at least, so the end of the message ends it
                yield from element(walk)

    return skip


def _read_byte(walk: Walk) -> Generator[None, None, int]:
    while walk.at >= len(walk.data):
        yield
    walk.at += 1
    return walk.data[walk.at - 1]


def _read_uvarint(walk: Walk) -> Generator[None, None, int]:
    value = shift = 0
    while True:
        while walk.at >= len(walk.data):
            yield
        byte = walk.data[walk.at]
        walk.at += 1
        if byte < _SHORT:
            return value | byte << shift
        value |= (byte & 0x7F) << shift
        shift += 7
        if shift > _MAX_SHIFT:
            raise Malformed("a varint is longer than 5 bytes")


def _read_number(size: int, walk: Walk) -> Generator[None, None, int]:
    read = bytearray()
    for _ in range(size):
        read.append((yield from _read_byte(walk)))
    return int.from_bytes(read, signed=True)
