"""The columns of tables from the structs of records."""

from typing import Annotated

import msgspec
from pyspark.sql.types import ArrayType, IntegerType, LongType, MapType, StringType, StructType

from quota.records.entity import QuotaEntity
from quota.records.fields import DebtMs, EpochMs, Int16
from schemas.columns import chosen_columns, column, columns


class Inner(msgspec.Struct):
    """A struct in a struct."""

    count: Int16
    """number of
    things"""


class Base(msgspec.Struct, kw_only=True):
    """Fields that come last."""

    later: Annotated[int, msgspec.Meta(le=2**31 - 1)] | None = None
    """bounded [ms]"""


class Example(Base):
    """A record."""

    total: int
    """without a bound"""
    at: EpochMs
    """time [epoch ms]"""
    debt: DebtMs | None
    """bounded, and stored in 64 bits"""
    inner: list[Inner] | None
    """things"""
    entity: QuotaEntity | None
    """entity"""
    tags: dict[str, str]
    """tags"""


def test_each_field_is_a_column_with_its_docstring_as_the_comment():
    assert columns(Example, "entity") == [
        column("total", LongType(), "without a bound"),
        column("at", LongType(), "time [epoch ms]"),
        column("debt", LongType(), "bounded, and stored in 64 bits"),
        column("inner", ArrayType(StructType([column("count", IntegerType(), "number of things")])), "things"),
        column("tags", MapType(StringType(), StringType()), "tags"),
        column("later", IntegerType(), "bounded [ms]"),
    ]


def test_an_entity_is_text_and_columns_can_be_chosen_in_any_order():
    assert [(field.name, field.dataType) for field in chosen_columns(Example, "entity", "total")] == [
        ("entity", StringType()),
        ("total", LongType()),
    ]
