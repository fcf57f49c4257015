"""Writers of messages: a schema as Python source, with all structs in line and fixed fields packed together."""

import struct
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import Any

from quota.wire.compiled_reader import element_of
from quota.wire.primitives import FunctionSource, Unwritable, write_string_length, write_tags, write_uvarint
from quota.wire.schemas import FORMATS, Field, Struct

_NAMES = {
    "Unwritable": Unwritable,
    "pack": struct.pack,
    "write_string_length": write_string_length,
    "write_tags": write_tags,
    "write_uvarint": write_uvarint,
}

_NULL = b"\xff\xff\xff\xff"  # -1

Write = Callable[[Mapping[str, Any]], bytearray]
"""A function that returns the bytes of a message. It may raise Unwritable, and for a value of another type
struct.error, TypeError, AttributeError, ValueError or OverflowError."""


def make_writer(message: Struct, title: str, last: str | None = None) -> Write:
    """Return the writer of a message, or of its fields up to and including `last`, which has no tag."""
    source = FunctionSource("(m)", _NAMES)
    source.add("out = bytearray()")
    if last is None:
        _write_struct(source, message, "m", "")
    else:
        names = [field.name for field in message.fields]
        source.add("get = m.get")
        _write_fields(source, message.fields[: names.index(last) + 1], "get", "")
    source.add("return out")
    return source.function(f"{title}, write")


def _write_struct(source: FunctionSource, message: Struct, value: str, path: str) -> None:
    get = source.name()
    source.add(f"{get} = {value}.get")
    for field in message.rejected:
        with source.block(f"if {_is_set(source, field, f'{get}({field.name!r}, {_default(source, field)})')}:"):
            source.add(f"raise Unwritable({path + field.name + ' is set, but this version does not have it'!r})")
    _write_fields(source, message.fields, get, path)
    if message.tagged:
        _write_tagged(source, message.tagged, get, path)
        return
    tags = source.name()
    source.add(f"{tags} = {get}('_tags')")
    with source.block(f"if {tags}:"):
        if message.flexible:
            source.add(f"out += write_tags((), {tags})")
        else:
            source.add(f"raise Unwritable({path + '_tags is set, but this version does not have it'!r})")
    if message.flexible:
        with source.block("else:"):
            source.add("out.append(0)")


def _default(source: FunctionSource, field: Field) -> str:
    if field.array and field.default is not None:
        return "()"
    return source.value(field.default) if field.default == {} else repr(field.default)


def _write_fields(source: FunctionSource, fields: Sequence[Field], get: str, path: str) -> None:
    for fixed, run in groupby(fields, key=lambda field: field.fixed is not None):
        if fixed:
            _write_fixed(source, list(run), get, path)
        else:
            for field in run:
                value = source.name()
                source.add(f"{value} = {get}({field.name!r}, {_default(source, field)})")
                _write_value(source, field, value, path + field.name)


def _write_fixed(source: FunctionSource, fields: list[Field], get: str, path: str) -> None:
    values = [f"{get}({field.name!r}, {field.default!r})" for field in fields]
    for index, field in enumerate(fields):
        if field.kind == "uuid":
            name = source.name()
            source.add(f"{name} = {values[index]}")
            _check_uuid(source, name, path + field.name)
            values[index] = name
    pack = source.value(struct.Struct(">" + "".join(field.fixed or "" for field in fields)).pack)
    source.add(f"out += {pack}({', '.join(values)})")


def _check_uuid(source: FunctionSource, value: str, path: str) -> None:
    with source.block(f"if len({value}) != 16:"):
        source.add(f"raise Unwritable(f'{path} has {{len({value})}} bytes instead of 16')")


def _write_value(source: FunctionSource, field: Field, value: str, path: str) -> None:
    """Add the writing of one value, which is a variable."""
    if field.array:
        _write_array(source, field, value, path)
    elif field.struct is not None:
        _write_nested(source, field, field.struct, value, path)
    elif field.fixed:
        if field.kind == "uuid":
            _check_uuid(source, value, path)
        source.add(f"out += {source.value(struct.Struct('>' + field.fixed).pack)}({value})")
    else:
        _write_text(source, field, value, path)


def _write_nested(source: FunctionSource, field: Field, nested: Struct, value: str, path: str) -> None:
    if not field.nullable:
        _write_struct(source, nested, value, path + ".")
        return
    with source.block(f"if {value} is None:"):
        source.add("out.append(255)")
    with source.block("else:"):
        source.add("out.append(1)")
        _write_struct(source, nested, value, path + ".")


def _write_null(source: FunctionSource, field: Field, value: str, path: str, *, short: bool) -> None:
    with source.block(f"if {value} is None:"):
        if not field.nullable:
            source.add(f"raise Unwritable({path + ' is null'!r})")
        elif field.compact:
            source.add("out.append(0)")
        else:
            source.add(f"out += {source.value(_NULL[: 2 if short else 4])}")


def _write_length(source: FunctionSource, *, compact: bool, short: bool) -> None:
    if compact:
        with source.block("if n < 127:"):
            source.add("out.append(n + 1)")
        with source.block("else:"):
            source.add(f"out += {'write_string_length' if short else 'write_uvarint'}(n + 1)")
    else:
        source.add(f"out += {source.value(struct.Struct('>h' if short else '>i').pack)}(n)")


def _write_text(source: FunctionSource, field: Field, value: str, path: str) -> None:
    """Add the writing of a string, of bytes or of records."""
    string = field.kind == "string"
    _write_null(source, field, value, path, short=string)
    with source.block("else:"):
        if string:
            source.add(f"{value} = {value}.encode()")
        source.add(f"n = len({value})")
        _write_length(source, compact=field.compact, short=string)
        source.add(f"out += {value}")


def _write_array(source: FunctionSource, field: Field, value: str, path: str) -> None:
    _write_null(source, field, value, path, short=False)
    with source.block("else:"):
        source.add(f"n = len({value})")
        _write_length(source, compact=field.compact, short=False)
        if field.kind in FORMATS and field.kind != "uuid":
            source.add(f"out += pack(f'>{{n}}{FORMATS[field.kind]}', *{value})")
            return
        element = source.name()
        with source.block(f"for {element} in {value}:"):
            if field.struct is not None:
                _write_struct(source, field.struct, element, f"{path}[].")
            elif field.kind == "uuid":
                _check_uuid(source, element, f"{path}[]")
                source.add(f"out += {element}")
            else:
                _write_text(source, element_of(field), element, f"{path}[]")


def _is_set(source: FunctionSource, field: Field, value: str) -> str:
    if field.default is None:
        return f"{value} is not None"
    if field.array:
        return f"{value} not in ((), [])"
    if field.struct is None:
        return f"{value} != {field.default!r}"
    write = make_writer(field.struct, field.name)
    return f"{source.value(write)}({value}) != {source.value(write({}))}"


def _write_tagged(source: FunctionSource, fields: Sequence[Field], get: str, path: str) -> None:
    """Add the writing of tagged fields: of the known ones those that are not their default, and the unknown ones."""
    known, outer = source.name(), source.name()
    source.add(f"{known} = []", f"{outer} = out")
    for field in fields:
        value = source.name()
        source.add(f"{value} = {get}({field.name!r}, {_default(source, field)})")
        with source.block(f"if {_is_set(source, field, value)}:"):
            source.add("out = bytearray()")
            _write_value(source, field, value, path + field.name)
            source.add(f"{known}.append(({field.tag}, out))")
    source.add(f"out = {outer}", f"out += write_tags({known}, {get}('_tags') or ())")
