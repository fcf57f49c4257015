"""What the readers and writers of all messages share: varints, tagged fields, errors, and how functions are compiled.

A reader raises Malformed for bytes that are invalid, and IndexError if they end early.
"""

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from quota.errors import MutationQuotaError

MAX_STRING = 0x7FFF  # bytes, in all versions of the protocol
_MAX_INT = 0x7FFFFFFF
_SHORT = 0x80  # varints below are one byte
_MAX_SHIFT = 28  # bits that come before the fifth byte of a varint

Tag = tuple[int, bytes]
"""A tagged field that no schema knows: its tag and its bytes."""


class Malformed(MutationQuotaError):
    """Bytes that are not a message of the protocol: the only error of reading, whatever the bytes."""


class TooManyElements(Malformed):
    """A message with more array elements than its reader allows."""


class Unwritable(MutationQuotaError):
    """A message with a value that its version cannot carry."""


def read_uvarint(data: bytes, at: int) -> tuple[int, int]:
    """Return the unsigned varint at an offset, and the offset after it.

    Kafka's reader drops the bits above 32 and reads a value of 2^31 or more as a negative number. Here both are
    rejected, so that no two readers of the same bytes see different messages.
    """
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < _SHORT:
            break
        shift += 7
        if shift > _MAX_SHIFT:
            raise Malformed("a varint is longer than 5 bytes")
    if value > _MAX_INT:
        raise Malformed(f"a varint is {value}, above 2^31 - 1")
    return value, at


def read_string_length(data: bytes, at: int) -> tuple[int, int]:
    """Return the length of a compact string plus 1, and the offset after it."""
    length, at = read_uvarint(data, at)
    if length > MAX_STRING + 1:
        raise Malformed(f"a string claims {length - 1} bytes; {MAX_STRING} is the maximum")
    return length, at


def read_tags(data: bytes, at: int, left: int) -> tuple[list[Tag], int, int]:
    """Return the tagged fields at an offset, the offset after them, and how many more elements may be read."""
    count, at = read_uvarint(data, at)
    left = reserve_elements(count, 2, len(data) - at, left)
    tags, last = [], -1
    for _ in range(count):
        tag, at, end = read_tag(data, at, last)
        tags.append((tag, data[at:end]))
        last, at = tag, end
    return tags, at, left


def read_tag(data: bytes, at: int, last: int) -> tuple[int, int, int]:
    """Return a tag, and the start and end offsets of its field."""
    tag, at = read_uvarint(data, at)
    size, at = read_uvarint(data, at)
    if tag <= last:
        raise Malformed(f"tag {tag} comes after tag {last}")
    if size > len(data) - at:
        raise Malformed(f"the field of tag {tag} is not as long as it claims: {size} bytes of {len(data) - at}")
    return tag, at, at + size


def reserve_elements(count: int, least: int, remaining: int, left: int) -> int:
    """Return how many elements may be read after `count` more, each of which takes at least `least` bytes."""
    if count * least > remaining:
        raise Malformed(f"{count} elements are claimed in {remaining} bytes")
    if count > left:
        raise TooManyElements("the message has more elements than allowed")
    return left - count


def write_uvarint(value: int) -> bytes:
    """Return a number from 0 to 2^31 - 1 as an unsigned varint."""
    if not 0 <= value <= _MAX_INT:
        raise Unwritable(f"{value} is not a number from 0 to 2^31 - 1")
    out = bytearray()
    while value >= _SHORT:
        out.append(value & 0x7F | _SHORT)
        value >>= 7
    out.append(value)
    return bytes(out)


def write_string_length(length: int) -> bytes:
    """Return the length of a compact string as bytes; `length` is already increased by 1."""
    if length > MAX_STRING + 1:
        raise Unwritable(f"a string has {length - 1} bytes; {MAX_STRING} is the maximum")
    return write_uvarint(length)


def write_tags(known: Sequence[tuple[int, bytes | bytearray]], unknown: Iterable[Tag]) -> bytes:
    """Return tagged fields in the order of their tags."""
    fields = sorted([*known, *unknown], key=lambda field: field[0])
    out = bytearray(write_uvarint(len(fields)))
    last = -1
    for tag, value in fields:
        if tag == last:
            raise Unwritable(f"tag {tag} is given twice")
        last = tag
        out += write_uvarint(tag) + write_uvarint(len(value)) + value
    return bytes(out)


class FunctionSource:
    """Lines of a function, with names that are used once, and the values that it refers to."""

    def __init__(self, signature: str, values: dict[str, Any]) -> None:
        """Begin a function `run` with a signature such as `(data, at)`, which may refer to values by name."""
        self._lines = [f"def run{signature}:"]
        self._indent = " "
        self._values = dict(values)
        self._numbers = itertools.count()

    def name(self) -> str:
        """Return a new name of a variable."""
        return f"v{next(self._numbers)}"

    def value(self, value: object) -> str:
        """Return a new name for a value."""
        name = f"c{next(self._numbers)}"
        self._values[name] = value
        return name

    def add(self, *lines: str) -> None:
        """Append lines at the current indent."""
        self._lines += [self._indent + line for line in lines]

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """Append a line such as `if x:`, and indent the lines that are added in the `with` block."""
        self.add(head)
        outer, self._indent = self._indent, self._indent + " "
        yield
        self._indent = outer

    def function(self, title: str) -> Callable[..., Any]:
        """Compile the function; `title` is shown as its file name in a traceback."""
        code = compile("\n".join(self._lines), f"<{title}>", "exec")
        namespace = dict(self._values)
        exec(code, namespace)  # noqa: S102 the source has names and numbers of Kafka's schemas, quoted, and no input
        run: Callable[..., Any] = namespace["run"]
        return run
