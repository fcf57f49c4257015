"""Null in JSON records: an optional field that is null counts as absent, since many JSON writers write it that way."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from msgspec import UNSET, inspect


@dataclass(frozen=True, slots=True)
class _Optional:
    """The fields of a type that may be absent and have no meaning of their own for null, at all depths."""

    fields: tuple[str, ...] = ()
    inner: Mapping[str, "_Optional"] = field(default_factory=dict)
    items: "_Optional | None" = None
    """The fields of the items, if the type is a list."""

    def __bool__(self) -> bool:
        return bool(self.fields or self.inner or self.items)


def drop_nulls(value: Any, kind: type) -> Any:  # noqa: ANN401 any JSON
    """Remove the optional fields of `kind` that are null from a decoded JSON value, in place, and return it.

    A field that is required, or in which null has a meaning, stays.
    """
    _drop(value, _optional(kind))
    return value


def _drop(value: Any, optional: _Optional) -> None:  # noqa: ANN401 any JSON
    if isinstance(value, dict):
        for name in optional.fields:
            if value.get(name, UNSET) is None:
                del value[name]
        for name, inner in optional.inner.items():
            _drop(value.get(name), inner)
    elif isinstance(value, list) and optional.items:
        for each in value:
            _drop(each, optional.items)


@cache
def _optional(kind: type) -> _Optional:
    return _of_type(inspect.type_info(kind))


def _of_type(kind: inspect.Type) -> _Optional:
    match kind:
        case inspect.UnionType(types=types):
            parts = [found for each in types if (found := _of_type(each))]
            return parts[0] if len(parts) == 1 else _Optional()
        case inspect.ListType(item_type=item):
            return _Optional(items=_of_type(item) or None)
        case inspect.StructType(fields=fields):
            return _Optional(
                tuple(each.encode_name for each in fields if not each.required and not takes_null(each.type)),
                {each.encode_name: found for each in fields if (found := _of_type(each.type))},
            )
        case _:
            return _Optional()


def takes_null(kind: inspect.Type) -> bool:
    """Return whether null is a value of a type."""
    match kind:
        case inspect.UnionType(types=types):
            return any(takes_null(each) for each in types)
        case inspect.NoneType() | inspect.AnyType() | inspect.RawType():
            return True
        case _:
            return False
