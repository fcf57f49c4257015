"""Columns with their meanings, from the structs of the records.

A field's meaning is its docstring, which Delta's DESCRIBE, `docs/reference/tables.md` and the JSON Schemas show; a unit
is at the end of it in brackets.
"""

import ast
import inspect
import sys
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from typing import cast

import msgspec
from msgspec import inspect as types
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
)

from quota.records.entity import QuotaEntity

_MAX_INT = 2**31 - 1
_INTEGERS: dict[int, DataType] = {32: IntegerType(), 64: LongType()}
_TYPES: dict[type[types.Type], DataType] = {
    types.BoolType: BooleanType(),
    types.EnumType: StringType(),
    types.FloatType: DoubleType(),
    types.IntType: LongType(),
    types.StrType: StringType(),
    types.StructType: StringType(),
}


def column(name: str, kind: DataType, meaning: str) -> StructField:
    """Return a column with its comment."""
    return StructField(name, kind, metadata={"comment": meaning})


def columns(struct: type[msgspec.Struct], *without: str) -> list[StructField]:
    """Return the columns of a struct's fields, in their order, without some of them."""
    described = meanings(struct)
    return [
        column(field.name, _spark_type(field.type), described[field.name])
        for field in cast(types.StructType, types.type_info(struct)).fields
        if field.name not in without
    ]


def chosen_columns(struct: type[msgspec.Struct], *names: str) -> list[StructField]:
    """Return the columns of some fields of a struct, in this order."""
    by_name = {field.name: field for field in columns(struct)}
    return [by_name[name] for name in names]


def _spark_type(kind: types.Type) -> DataType:
    """Return the type of a column; an entity is text, because its null parts have a meaning of their own."""
    match kind:
        case types.UnionType(types=members):
            (member,) = (member for member in members if not isinstance(member, types.NoneType))
            return _spark_type(member)
        case types.Metadata(extra={"bits": bits}):
            return _INTEGERS[bits]
        case types.ListType(item_type=item):
            return ArrayType(_spark_type(item))
        case types.DictType(key_type=key, value_type=value):
            return MapType(_spark_type(key), _spark_type(value))
        case types.StructType(cls=struct) if struct is not QuotaEntity:
            return StructType(columns(struct))
        case _:
            is_int = isinstance(kind, types.IntType) and kind.le is not None and kind.le <= _MAX_INT
            return IntegerType() if is_int else _TYPES[type(kind)]


@cache
def meanings(struct: type[msgspec.Struct]) -> dict[str, str]:
    """Return the docstrings of the fields of a struct and of its bases, each in one line."""
    return {
        name: " ".join(text.split())
        for base in reversed(struct.__mro__)
        if issubclass(base, msgspec.Struct) and base is not msgspec.Struct
        for name, text in _docstrings(base)
    }


def _docstrings(struct: type[msgspec.Struct]) -> Iterator[tuple[str, str]]:
    for field, following in pairwise(_classes(struct.__module__)[struct.__name__].body):
        match field, following:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                yield name, text


@cache
def _classes(module: str) -> dict[str, ast.ClassDef]:
    code = ast.parse(inspect.getsource(sys.modules[module]))
    return {statement.name: statement for statement in code.body if isinstance(statement, ast.ClassDef)}
