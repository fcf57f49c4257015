"""Readers of messages: a schema as Python source, with all structs in line and fixed fields unpacked together."""

import struct
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

from quota.wire.primitives import (
    FunctionSource,
    Malformed,
    read_string_length,
    read_tag,
    read_tags,
    read_uvarint,
    reserve_elements,
)
from quota.wire.schemas import FORMATS, Field, Struct

_NAMES = {
    "Malformed": Malformed,
    "reserve_elements": reserve_elements,
    "read_string_length": read_string_length,
    "read_tag": read_tag,
    "read_tags": read_tags,
    "read_uvarint": read_uvarint,
    "unpack_from": struct.unpack_from,
}

Read = Callable[[bytes, int, int], tuple[dict[str, Any], int]]
"""A function of bytes, an offset and the maximum number of elements; it returns the message and the offset after it.

It may raise Malformed, IndexError, struct.error and UnicodeDecodeError.
"""


def make_reader(message: Struct, title: str, last: str | None = None) -> Read:
    """Return the reader of a message, or of its fields up to and including `last`, which has no tag."""
    source = FunctionSource("(data, at, left)", _NAMES)
    source.add("size = len(data)")
    if last is None:
        expression = _read_struct(source, message, "")
    else:
        names = [field.name for field in message.fields]
        head = message.fields[: names.index(last) + 1]
        expression = _literal(head, _read_fields(source, head, ""))
    source.add(f"return {expression}, at")
    return source.function(f"{title}, read")


def _read_struct(source: FunctionSource, message: Struct, path: str) -> str:
    variables = _read_fields(source, message.fields, path)
    if not message.flexible:
        return _literal(message.fields, variables)
    result, unknown = source.name(), source.name()
    if message.tagged or message.barred:
        variables += _read_tagged(source, message, unknown, path)
        source.add(f"{result} = {_literal([*message.fields, *message.tagged], variables)}")
        with source.block(f"if {unknown}:"):
            source.add(f"{result}['_tags'] = {unknown}")
        return result
    source.add(f"{result} = {_literal(message.fields, variables)}")
    with source.block("if data[at]:"):
        source.add(f"{result}['_tags'], at, left = read_tags(data, at, left)")
    with source.block("else:"):
        source.add("at += 1")
    return result


def _literal(fields: Sequence[Field], values: list[str]) -> str:
    return "{" + ", ".join(f"{field.name!r}: {value}" for field, value in zip(fields, values, strict=True)) + "}"


def _read_fields(source: FunctionSource, fields: Sequence[Field], path: str) -> list[str]:
    """Add the reading of fields without tags, and return their variables."""
    variables: list[str] = []
    for fixed, run in groupby(fields, key=lambda field: field.fixed is not None):
        if fixed:
            variables += _read_fixed(source, [field.fixed or "" for field in run])
        else:
            variables += [_read_field(source, field, path) for field in run]
    return variables


def _read_fixed(source: FunctionSource, formats: list[str]) -> list[str]:
    names = [source.name() for _ in formats]
    unpack = source.value(struct.Struct(">" + "".join(formats)).unpack_from)
    source.add(f"{', '.join(names)}, = {unpack}(data, at)", f"at += {sum(map(struct.calcsize, formats))}")
    return names


def _read_field(source: FunctionSource, field: Field, path: str) -> str:
    path += field.name
    if field.array:
        return _read_array(source, field, path)
    if field.struct is not None:
        return _read_nested(source, field, field.struct, path)
    if field.fixed:
        return _read_fixed(source, [field.fixed])[0]
    return _read_text(source, field, path)


def _read_nested(source: FunctionSource, field: Field, nested: Struct, path: str) -> str:
    if not field.nullable:
        return _read_struct(source, nested, path + ".")
    result = source.name()
    source.add("n = data[at]", "at += 1")
    with source.block("if n > 127:"):  # a negative byte
        source.add(f"{result} = None")
    with source.block("else:"):
        source.add(f"{result} = {_read_struct(source, nested, path + '.')}")
    return result


def _read_length(source: FunctionSource, *, compact: bool, short: bool, string: bool = False) -> None:
    """Add the reading of a length as `n`, which is below 0 for null."""
    if compact:
        source.add("n = data[at] - 1")
        with source.block("if n > 126:"):
            source.add(f"n, at = {'read_string_length' if string else 'read_uvarint'}(data, at)", "n -= 1")
        with source.block("else:"):
            source.add("at += 1")
    else:
        unpack = source.value(struct.Struct(">h" if short else ">i").unpack_from)
        source.add(f"n, = {unpack}(data, at)", f"at += {2 if short else 4}")


def _add_null(source: FunctionSource, field: Field, result: str, path: str) -> None:
    with source.block("else:"):
        if field.nullable:
            source.add(f"{result} = None")
        else:
            source.add(f"raise Malformed({path + ' is null'!r})")


def _read_text(source: FunctionSource, field: Field, path: str) -> str:
    """Add the reading of a string, of bytes or of records."""
    result = source.name()
    string = field.kind == "string"
    _read_length(source, compact=field.compact, short=string, string=string)
    with source.block("if n >= 0:"):
        source.add("n += at")
        with source.block("if n > size:"):
            source.add(f"raise Malformed(f'{path} claims {{n - at}} bytes of {{size - at}}')")
        source.add(f"{result} = data[at:n]{'.decode()' if string else ''}", "at = n")
    _add_null(source, field, result, path)
    return result


def _read_array(source: FunctionSource, field: Field, path: str) -> str:
    result = source.name()
    _read_length(source, compact=field.compact, short=False)
    with source.block("if n >= 0:"):
        least = max(1, field.element_least)  # as in Kafka, which rejects a count above the number of remaining bytes
        with source.block(f"if n > left or n * {least} > size - at:"):
            source.add(f"reserve_elements(n, {least}, size - at, left)")
        source.add("left -= n")
        if field.struct is None and field.kind in FORMATS and field.kind != "uuid":
            step = struct.calcsize(FORMATS[field.kind])
            source.add(f"{result} = [*unpack_from(f'>{{n}}{FORMATS[field.kind]}', data, at)]", f"at += {step} * n")
        else:
            source.add(f"{result} = []")
            with source.block("for _ in range(n):"):
                source.add(f"{result}.append({_read_element(source, field, path)})")
    _add_null(source, field, result, path)
    return result


def _read_element(source: FunctionSource, field: Field, path: str) -> str:
    if field.struct is not None:
        return _read_struct(source, field.struct, f"{path}[].")
    if field.kind == "uuid":
        return _read_fixed(source, ["16s"])[0]
    return _read_text(source, element_of(field), f"{path}[]")


def element_of(field: Field) -> Field:
    """Return the elements of an array of strings or bytes, as a field; they are never null."""
    return replace(field, array=False, nullable=False)


def _read_tagged(source: FunctionSource, message: Struct, unknown: str, path: str) -> list[str]:
    """Add the reading of tagged fields, and return the variables of the known ones; `unknown` is that of the others."""
    names = [source.name() for _ in message.tagged]
    for name, field in zip(names, message.tagged, strict=True):
        source.add(f"{name} = {_default(field)}")
    last, end, tag = (source.name() for _ in range(3))
    source.add(
        f"{unknown} = []",
        "n, at = read_uvarint(data, at)",
        "left = reserve_elements(n, 2, size - at, left)",
        f"{last} = -1",
    )
    with source.block("for _ in range(n):"):
        source.add(f"{tag}, at, {end} = read_tag(data, at, {last})", f"{last} = {tag}")
        with source.block(f"if {tag} in {source.value(frozenset(message.barred))}:"):
            source.add(f"raise Malformed(f'tag {{{tag}}} is not of this version')")
        for name, field in zip(names, message.tagged, strict=True):
            with source.block(f"elif {tag} == {field.tag}:"):
                source.add(f"{name} = {_read_field(source, field, path)}")
                with source.block(f"if at != {end}:"):
                    source.add(f"raise Malformed({path + field.name + ' is not as long as it claims'!r})")
        with source.block("else:"):
            source.add(f"{unknown}.append(({tag}, data[at:{end}]))", f"at = {end}")
    return names


def _default(field: Field) -> str:
    """Return the expression of a field that is absent."""
    if field.struct is None or field.array or field.default is None:
        return repr(field.default)
    fields = [*field.struct.fields, *field.struct.tagged]
    return _literal(fields, [_default(nested) for nested in fields])
