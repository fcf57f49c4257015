"""JSON records: bytes to typed structs and back, and an error that names the field and the value."""

import base64
import codecs
import enum
import re
import typing
from typing import Any

import msgspec

from quota.errors import BadRecord

T = typing.TypeVar("T")

_SHOWN = 120  # characters of a bad value that an error shows
_MAX_DEPTH = 100  # far below any interpreter's recursion limit, so that every caller agrees on what is too deep
# Possessive, and with a way out for a string that is not closed: linear in the length, whatever the bytes.
_BRACKETS = re.compile(rb'"(?:[^"\\]|\\.?)*+(?:"|\Z)|([\[{])|([\]}])', re.DOTALL)
_LOCATED = re.compile(r"(?P<reason>.*) - at `\$\.?(?P<path>.*)`", re.DOTALL)
_MISSING = re.compile(r"Object missing required field `(?P<field>[^`]*)`")
_STEP = re.compile(r"\[(\d+)\]|([^.\[\]]+)")

NOT_TEXT = "value: not UTF-8"
"""How the error of bytes begins that are no text."""

encode = msgspec.json.Encoder().encode


def decode(value: bytes | None, decoder: msgspec.json.Decoder[T]) -> T:
    """Decode one JSON object.

    Raises:
        BadRecord: the bytes are null, not UTF-8, not JSON, or not of the decoder's type.
    """
    if value is None:
        raise BadRecord("value: null, expected a JSON object")
    check_text(value)
    if _too_deep(value):
        raise BadRecord(f"value: JSON nested deeper than {_MAX_DEPTH} levels (value: {_show(value)})")
    try:
        try:
            return decoder.decode(value)
        except msgspec.ValidationError as error:
            raise BadRecord(_explain(str(error), value, decoder.type)) from None
    except msgspec.DecodeError as error:
        reason = str(error).removeprefix("JSON is malformed: ")
        raise BadRecord(f"value: not JSON: {reason} (value: {_show(value)})") from None


def check_text(value: bytes, *, whole: bool = True) -> None:
    """Check that bytes are UTF-8; those that are not `whole` may end in the middle of a character.

    Raises:
        BadRecord: with the first byte that is not.
    """
    try:
        codecs.utf_8_decode(value, "strict", whole)  # in a tenth of an incremental decoder's time
    except UnicodeDecodeError as error:
        raise BadRecord(f"{NOT_TEXT} (byte 0x{value[error.start]:02x} at {error.start})") from None


def text(value: bytes) -> str:
    """Bytes as they can stand in JSON: as text, or as base64 where they are not UTF-8."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return base64.b64encode(value).decode()


def _explain(message: str, value: bytes, expected: type) -> str:
    """msgspec's message, turned around to begin with the field and to end with the value found there.

    Raises:
        msgspec.DecodeError: the bytes behind that field are no JSON at all.
    """
    located = _LOCATED.fullmatch(message)
    reason, path = (located["reason"], located["path"]) if located else (message, "")
    missing = _MISSING.fullmatch(reason)
    if missing:
        return f"{path + '.' if path else ''}{missing['field']}: missing"
    if reason.startswith("Invalid enum value"):
        reason = f"expected one of {', '.join(_members(expected, path))}"
    reason = reason[0].lower() + reason[1:].replace("`", "")
    return f"{path or 'value'}: {reason} (value: {_show(_find(value, path))})"


def _members(expected: type, field: str) -> list[str]:
    hint = typing.get_type_hints(expected)[field]
    return [str(member.value) for member in hint] if issubclass(hint, enum.Enum) else []


def _find(value: bytes, path: str) -> bytes:
    try:
        found: Any = msgspec.json.decode(value)
        for index, name in _STEP.findall(path):
            found = found[int(index)] if index else found[name]
    except (LookupError, TypeError):  # a field given twice, of which the other one is at fault
        return value
    except msgspec.ValidationError:  # a number that no float can hold
        return value
    return encode(found)


def _show(value: bytes) -> str:
    shown = value[: 4 * _SHOWN].decode(errors="ignore")
    return shown if len(shown) <= _SHOWN else shown[:_SHOWN] + "…"


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
