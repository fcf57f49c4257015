"""Messages in one version: from bytes to dicts and back."""

import struct
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import Any

from quota.wire.compiled_reader import Read, element_of, make_reader
from quota.wire.compiled_writer import Write, make_writer
from quota.wire.primitives import Malformed, Unwritable, read_uvarint
from quota.wire.schemas import Schema, Struct, struct_of
from quota.wire.walk import Plan, plan_of

MAX_ELEMENTS = 100_000
"""The default maximum of the elements of all arrays of a message together, including tagged fields."""

_WRONG = (struct.error, TypeError, AttributeError, ValueError, OverflowError)
"""The exceptions that values of other types raise; a lone surrogate in a string raises ValueError."""

Message = dict[str, Any]
"""A message as Kafka's own JSON names it: `{"topics": [{"name": "a", "numPartitions": 3}], "timeoutMs": 30000}`.

Structs are dicts, arrays lists, a uuid 16 bytes, records bytes, error codes ints. Tagged fields that the schema does
not know are under `_tags`, as pairs of the tag and the bytes, if there are any.
"""


class MessageCodec:
    """Reads and writes a message in one version; each function is compiled when it is first used.

    A field of another version is absent in a decoded message, and ignored in an encoded one if its schema allows that.
    """

    def __init__(self, schema: Schema, version: int, first: str | None = None) -> None:
        """Compile one of Kafka's schemas, such as `CreateTopicsRequest`, or its end from the field `first` on."""
        self.name: str = schema["name"]
        self.version = version
        self._schema = schema
        self._struct = struct_of(schema, version)
        if first is not None:
            names = [*(field.name for field in self._struct.fields), first]  # a tagged field comes after all others
            fields = self._struct.fields[names.index(first) :]
            self._struct = replace(self._struct, fields=fields, rejected=())
        self._readers: dict[str | None, Read] = {}
        self._writers: dict[str | None, Write] = {}
        self._parts: dict[str, tuple[Plan, MessageCodec]] = {}

    def __str__(self) -> str:
        return f"{self.name} v{self.version}"

    @property
    def flexible(self) -> bool:
        """Whether the version has tagged fields, and so has its header."""
        return self._struct.flexible

    def read(self, data: bytes, at: int = 0, max_elements: int = MAX_ELEMENTS) -> Message:
        """Return the message at an offset. Bytes after it are ignored, as by brokers: librdkafka sends some."""
        return self.read_head(data, None, at, max_elements)[0]

    def read_head(
        self, data: bytes, last: str | None, at: int = 0, max_elements: int = MAX_ELEMENTS
    ) -> tuple[Message, int]:
        """Return the fields of the message up to and including `last`, and the offset after them; all with None."""
        read = self._readers.get(last)
        if read is None:
            self._check_last(last)
            read = self._readers[last] = make_reader(self._struct, str(self), last)
        return self._run(read, data, at, max_elements)

    def write(self, message: Mapping[str, Any]) -> bytes:
        """Return the bytes of a message; missing fields have their defaults."""
        return self.write_head(message, None)

    def write_head(self, message: Mapping[str, Any], last: str | None) -> bytes:
        """Return the bytes of the fields up to and including `last`; of all with None."""
        write = self._writers.get(last)
        if write is None:
            self._check_last(last)
            write = self._writers[last] = make_writer(self._struct, str(self), last)
        try:
            return bytes(write(message))
        except (*_WRONG, Unwritable) as error:
            raise Unwritable(f"{self}: {error}") from error

    def read_first(self, data: bytes, at: int, names: AbstractSet[str]) -> Message:
        """Return the first element of the array that a message begins with: its fields up to the last one of `names`.

        The message may be incomplete. A string is returned as the field `name`.
        """
        array = self._struct.fields[0]
        (count, at) = (
            read_uvarint(data, at) if array.compact else (int.from_bytes(data[at : at + 4], signed=True), at + 4)
        )
        if count - array.compact < 1:
            raise Malformed(f"{self} has no {array.name}")
        struct = array.struct or Struct((replace(element_of(array), name="name"),), (), (), False, ())
        last = [field.name for field in struct.fields if field.name in names][-1]
        return self._run(make_reader(struct, f"{self}, first", last), data, at, MAX_ELEMENTS)[0]

    def split(self, name: str) -> tuple[Plan, "MessageCodec"]:
        """Return the plan up to the field `name`, and the codec of the rest, which begins with it.

        A tagged field is part of the rest, which then begins with the tagged fields.
        """
        if name not in self._parts:
            rest = MessageCodec(self._schema, self.version, name)
            before = self._struct.fields[: len(self._struct.fields) - len(rest._struct.fields)]
            self._parts[name] = plan_of(before), rest
        return self._parts[name]

    def _check_last(self, last: str | None) -> None:
        if last is not None and last not in {field.name for field in self._struct.fields}:
            raise ValueError(f"{self} has no field {last!r} outside of its tags")

    def _run(self, read: Read, data: bytes, at: int, max_elements: int) -> tuple[Message, int]:
        try:
            return read(data, at, max_elements)
        except (IndexError, struct.error):
            raise Malformed(f"{self} ends early, after {len(data) - at} bytes") from None
        except UnicodeDecodeError as error:
            raise Malformed(f"{self} has a string that is not UTF-8 ({error.reason})") from None
        except Malformed as error:
            raise type(error)(f"{self}: {error}") from None
