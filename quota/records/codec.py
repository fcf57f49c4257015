"""The JSON codec of records; its errors name the field and the value."""

import base64
import codecs
import enum
import re
import typing
from typing import Any

import msgspec

from quota.errors import BadRecord
from quota.text import escaped

T = typing.TypeVar("T")

_MAX_SHOWN = 120  # characters of a bad value in an error
_MAX_DEPTH = 100  # far below any interpreter's recursion limit, so that all callers have the same limit
# Possessive, with an alternative for an unclosed string: linear in the length, whatever the bytes.
_BRACKETS = re.compile(rb'"(?:[^"\\]|\\.?)*+(?:"|\Z)|([\[{])|([\]}])', re.DOTALL)
_LOCATED = re.compile(r"(?P<reason>.*) - at `\$\.?(?P<path>.*)`", re.DOTALL)
_STEP = re.compile(r"\[([^\]]*)\]|([^.\[\]]+)")
_ELEMENT = "[]"
_REQUIRED = re.compile(r"Object missing required field `(.*)`")
_MISSING = "missing"
_BAD_ENUM = "Invalid enum value"

NOT_TEXT = "value: not UTF-8"
"""The beginning of the error for bytes that are not UTF-8."""

encode = msgspec.json.Encoder().encode


def decode(value: bytes | None, decoder: msgspec.json.Decoder[T]) -> T:
    """Decode one JSON object; an optional field that is null counts as absent."""
    if value is None:
        raise BadRecord("value: null, expected a JSON object")
    check_text(value)
    if _too_deep(value):
        raise BadRecord(f"value: JSON nested deeper than {_MAX_DEPTH} levels (value: {_show(value)})")
    try:
        try:
            return decoder.decode(value)
        except msgspec.ValidationError as error:
            return _without_nulls(value, decoder.type, str(error), strict=decoder.strict)
    except msgspec.DecodeError as error:
        reason = str(error).removeprefix("JSON is malformed: ")
        raise BadRecord(f"value: not JSON: {reason} (value: {_show(value)})") from None


def _without_nulls(value: bytes, kind: type[T], message: str, *, strict: bool) -> T:
    """Decode JSON without the fields that are null where their type has no null, such as a user.

    It is converted once more for each such field, of which a record has few; in a list, all elements lose the field.
    """
    try:
        fields = msgspec.json.decode(value)
    except msgspec.ValidationError:  # a number that does not fit into a float
        raise BadRecord(_explain(message, kind, value)) from None
    dropped: dict[tuple[str, ...], str] = {}
    while True:
        path = _locate(message)[1]
        steps = tuple(name or _ELEMENT for _, name in _STEP.findall(path))
        explained = _explain(message, kind, value, fields)
        if steps in dropped:  # it was required
            raise BadRecord(dropped[steps])
        if not steps or steps[-1] == _ELEMENT or not _drop_nulls(fields, steps):
            raise BadRecord(explained)
        dropped[steps] = explained
        try:
            return msgspec.convert(fields, kind, strict=strict)
        except msgspec.ValidationError as error:
            message = str(error)


def _drop_nulls(fields: Any, steps: tuple[str, ...]) -> bool:  # noqa: ANN401 any JSON
    """Remove a field where it is null; return whether there was one."""
    holders = [fields]
    for step in steps[:-1]:
        if step == _ELEMENT:
            holders = [element for holder in holders if isinstance(holder, list) for element in holder]
        else:
            holders = [holder[step] for holder in holders if isinstance(holder, dict) and step in holder]
    name = steps[-1]
    holders = [holder for holder in holders if isinstance(holder, dict) and holder.get(name, ...) is None]
    for holder in holders:
        del holder[name]
    return bool(holders)


def check_text(value: bytes, *, whole: bool = True) -> None:
    """Check that bytes are UTF-8; where they are not the whole, they may end in the middle of a character."""
    try:
        codecs.utf_8_decode(value, "strict", whole)  # ten times as fast as an incremental decoder
    except UnicodeDecodeError as error:
        raise BadRecord(f"{NOT_TEXT} (byte 0x{value[error.start]:02x} at {error.start})") from None


def text(value: bytes) -> str:
    """Return bytes as a JSON string: text, or base64 where they are not UTF-8."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return base64.b64encode(value).decode()


def _explain(message: str, kind: Any, value: bytes, fields: Any = None) -> str:  # noqa: ANN401 any JSON, any type
    """Return msgspec's sentence, after the path of the field and before its value, or all of the JSON if unknown.

    For a field of fixed values, it says which they are.
    """
    reason, path = _locate(message)
    if reason == _MISSING:
        return f"{path}: {_MISSING}"
    if reason.startswith(_BAD_ENUM):
        reason = f"{reason}, expected one of {', '.join(_members(kind, path))}"
    try:
        for index, name in _STEP.findall(path):
            fields = fields[int(index)] if index else fields[name]
        value = encode(fields)
    except (LookupError, TypeError, ValueError):  # an element of a map, or the field is repeated
        pass
    return escaped(f"{path or 'value'}: {reason[0].lower()}{reason[1:].replace('`', '')} (value: {_show(value)})")


def _members(kind: Any, path: str) -> list[str]:  # noqa: ANN401 any type
    """Return the values of the enum at a path of structs."""
    for name in path.split("."):
        hint = typing.get_type_hints(kind)[name]
        kind = next((argument for argument in typing.get_args(hint) if isinstance(argument, type)), hint)
    return [str(member.value) for member in typing.cast("type[enum.Enum]", kind)]


def _locate(message: str) -> tuple[str, str]:
    """Return the reason and the path of msgspec's message; an empty path for the whole record."""
    located = _LOCATED.fullmatch(message)
    reason, path = (located["reason"], located["path"]) if located else (message, "")
    missing = _REQUIRED.fullmatch(reason)
    return (_MISSING, f"{path}.{missing[1]}".removeprefix(".")) if missing else (reason, path)


def _show(value: bytes) -> str:
    shown = escaped(value[: 4 * _MAX_SHOWN].decode(errors="ignore"))
    return shown if len(shown) <= _MAX_SHOWN else shown[:_MAX_SHOWN] + "…"


def _too_deep(value: bytes) -> bool:
    if value.count(b"[") + value.count(b"{") <= _MAX_DEPTH:
        return False
    depth = 0
    for bracket in _BRACKETS.finditer(value):
        if bracket[1]:
            depth += 1
            if depth > _MAX_DEPTH:
                return True
        elif bracket[2]:
            depth -= 1
    return False
