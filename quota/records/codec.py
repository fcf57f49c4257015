"""The JSON codec of records; its errors name the field and the value."""

import base64
import codecs
import enum
import re
import typing
from typing import Any

import msgspec

from quota.errors import BadRecord
from quota.records.nulls import drop_nulls

T = typing.TypeVar("T")

_MAX_SHOWN = 120  # characters of a bad value in an error
_MAX_DEPTH = 100  # far below any interpreter's recursion limit, so that all callers have the same limit
# Possessive, with an alternative for an unclosed string: linear in the length, whatever the bytes.
_BRACKETS = re.compile(rb'"(?:[^"\\]|\\.?)*+(?:"|\Z)|([\[{])|([\]}])', re.DOTALL)
_LOCATED = re.compile(r"(?P<reason>.*) - at `\$\.?(?P<path>.*)`", re.DOTALL)
_MISSING = re.compile(r"Object missing required field `(?P<field>[^`]*)`")
_GOT_NULL = "got `null`"
_EMPTY = "Expected `str` of length >= 1"
_EXPECTED = "Expected "
_TYPE = re.compile(r"`([^`]*)`")
_JSON_TYPES = {"int": "integer", "float": "number", "str": "string", "bool": "boolean"}
"""JSON's names of types, by Python's."""
_STEP = re.compile(r"\[(\d+)\]|([^.\[\]]+)")

NOT_TEXT = "value: not UTF-8"
"""The beginning of the error for bytes that are not UTF-8."""

encode = msgspec.json.Encoder().encode


def decode(value: bytes | None, decoder: msgspec.json.Decoder[T]) -> T:
    """Decode one JSON object; an optional field that is null counts as absent.

    Raises:
        BadRecord: the bytes are null, not UTF-8, not JSON, or do not match the decoder's type.
    """
    if value is None:
        raise BadRecord("value: null, expected a JSON object")
    check_text(value)
    if _too_deep(value):
        raise BadRecord(f"value: JSON nested deeper than {_MAX_DEPTH} levels (value: {_show(value)})")
    try:
        try:
            return _decode(value, decoder)
        except msgspec.ValidationError as error:
            raise BadRecord(_explain(str(error), value, decoder.type)) from None
    except msgspec.DecodeError as error:
        reason = str(error).removeprefix("JSON is malformed: ")
        raise BadRecord(f"value: not JSON: {reason} (value: {_show(value)})") from None


def _decode(value: bytes, decoder: msgspec.json.Decoder[T]) -> T:
    """Decode JSON without the optional fields that are null.

    Raises:
        msgspec.DecodeError: the bytes are not JSON, or do not match the decoder's type.
    """
    try:
        return decoder.decode(value)
    except msgspec.ValidationError as error:
        if _GOT_NULL not in str(error):
            raise
    # Decoding twice costs some microseconds, and only records with such a null.
    return msgspec.convert(drop_nulls(msgspec.json.decode(value), decoder.type), decoder.type)


def check_text(value: bytes, *, whole: bool = True) -> None:
    """Check that bytes are UTF-8.

    Args:
        value: the bytes.
        whole: false where the bytes are a prefix, which may end in the middle of a character.

    Raises:
        BadRecord: they are not; the message names the first invalid byte.
    """
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


def _explain(message: str, value: bytes, expected: type) -> str:
    """Rephrase msgspec's message to begin with the field and to end with its value.

    Raises:
        msgspec.DecodeError: the bytes after that field are not JSON.
    """
    located = _LOCATED.fullmatch(message)
    reason, path = (located["reason"], located["path"]) if located else (message, "")
    missing = _MISSING.fullmatch(reason)
    if missing:
        return f"{path + '.' if path else ''}{missing['field']}: missing"
    if reason == _EMPTY:
        return f'{path or "value"}: empty, expected at least one character (value: "")'
    if reason.startswith("Invalid enum value"):
        reason = f"expected one of {', '.join(_members(expected, path))}"
    if reason.startswith(_EXPECTED):
        reason = _TYPE.sub(
            lambda match: " or ".join(_JSON_TYPES.get(each, each) for each in match[1].split(" | ")), reason
        )
    reason = reason[0].lower() + reason[1:].replace("`", "")
    return f"{path or 'value'}: {reason} (value: {_show(_find(value, path))})"


def _members(expected: type, field: str) -> list[str]:
    """Return the values of an enum field."""
    hint = typing.get_type_hints(expected)[field]
    return [str(member.value) for member in hint] if issubclass(hint, enum.Enum) else []


def _find(value: bytes, path: str) -> bytes:
    """Return the JSON of the value at a path, or all of it where the path leads nowhere."""
    try:
        found: Any = msgspec.json.decode(value)
        for index, name in _STEP.findall(path):
            found = found[int(index)] if index else found[name]
    except (LookupError, TypeError):  # the field is repeated, and the error is in the other one
        return value
    except msgspec.ValidationError:  # a number that does not fit into a float
        return value
    return encode(found)


def _show(value: bytes) -> str:
    shown = value[: 4 * _MAX_SHOWN].decode(errors="ignore")
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
