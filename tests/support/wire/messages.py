"""Random messages, and messages in the form of Kafka's JSON."""

import base64
import math
import random
from collections.abc import Mapping
from typing import Any

from quota.wire.schemas import Field, Struct

_EDGES = (0, 1, -1, 2, 127, 128, 255, 256, 65535, -(2**31), 2**31 - 1, -(2**63), 2**63 - 1)
_RANGES = {
    "int8": (-(2**7), 2**7 - 1),
    "int16": (-(2**15), 2**15 - 1),
    "uint16": (0, 2**16 - 1),
    "int32": (-(2**31), 2**31 - 1),
    "uint32": (0, 2**32 - 1),
    "int64": (-(2**63), 2**63 - 1),
}
_STRINGS = ("", "a", "topic-1", "\u00e9\u4e16\U0001f600", "\0", "x" * 126, "x" * 127, "y" * 300)
_OTHERS = {
    "bool": lambda chance: chance.random() < 0.5,
    "float64": lambda chance: chance.choice((chance.gauss(), math.nan, math.inf, -math.inf)),
    "uuid": lambda chance: chance.choice((bytes(16), chance.randbytes(16))),
    "string": lambda chance: chance.choice(_STRINGS),
    "bytes": lambda chance: chance.randbytes(chance.choice((0, 1, 5, 126, 127, 300))),
    "records": lambda chance: chance.randbytes(chance.choice((0, 1, 5, 126, 127, 300))),
}
_UNKNOWN_TAGS = 100  # above all that Kafka has
_SEVERAL = 3


def random_message(chance: random.Random, struct: Struct) -> dict[str, Any]:
    """Return a message with most of its fields or none, edge cases among its values, and some unknown tags."""
    share = chance.choice((0.9, 0.9, 0.9, 0.0))
    message = {
        field.name: _value(chance, field) for field in [*struct.fields, *struct.tagged] if chance.random() < share
    }
    for field in struct.fields:
        if field.default is None and not field.nullable and field.name not in message:
            message[field.name] = _value(chance, field)  # this version has no default for it
    if struct.flexible and chance.random() < 0.1:
        tags = chance.sample(range(_UNKNOWN_TAGS, 100_000), chance.randint(1, 3))
        message["_tags"] = [(tag, chance.randbytes(chance.randint(0, 200))) for tag in sorted(tags)]
    return message


def as_json(struct: Struct, message: Mapping[str, Any]) -> dict[str, Any]:
    """Return a message, as the codec has read it, in the form of Kafka's JSON.

    That form is without tagged fields at their default, unknown tags, and the content of records.
    """
    converted = {field.name: _json(field, message[field.name]) for field in struct.fields}
    for field in struct.tagged:
        value = message[field.name]
        if value != _default(field):
            converted[field.name] = _json(field, value)
    return converted


def _value(chance: random.Random, field: Field) -> Any:
    if field.nullable and chance.random() < 0.2:
        return None
    if field.array:
        count = chance.choice((0, 1, 2, _SEVERAL)) if field.struct or chance.random() < 0.9 else chance.randint(0, 200)
        return [_single(chance, field) for _ in range(count)]
    return _single(chance, field)


def _single(chance: random.Random, field: Field) -> Any:
    if field.struct is not None:
        return random_message(chance, field.struct)
    if field.kind in _RANGES:
        low, high = _RANGES[field.kind]
        return chance.choice((*(edge for edge in _EDGES if low <= edge <= high), chance.randint(low, high)))
    return _OTHERS[field.kind](chance)


def _json(field: Field, value: Any) -> Any:
    if value is None:
        return None
    if field.array:
        return [_single_json(field, element) for element in value]
    return _single_json(field, value)


def _single_json(field: Field, value: Any) -> Any:
    if field.struct is not None:
        return as_json(field.struct, value)
    if field.kind == "uuid":
        return base64.urlsafe_b64encode(value).decode().rstrip("=")
    if field.kind == "records":
        return ""
    if field.kind == "bytes":
        return base64.b64encode(value).decode()
    if field.kind == "float64" and not math.isfinite(value):
        return "NaN" if math.isnan(value) else f"{'-' if value < 0 else ''}Infinity"
    return value


def _default(field: Field) -> Any:
    if field.struct is None or field.array or field.default is None:
        return field.default
    return {inner.name: _default(inner) for inner in [*field.struct.fields, *field.struct.tagged]}
