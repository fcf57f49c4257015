"""Tenants by the minute: the Delta table that `minutes` computes from the decisions table."""

from pyspark.sql.types import (
    DateType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructType,
    TimestampType,
)

from schemas.column import column

VERSION = 1

TABLE = StructType(
    [
        column("date", DateType(), "date of the minute (UTC), by which the table is partitioned"),
        column("minute", TimestampType(), "start of the minute"),
        column("tenant", StringType(), "tags of the bucket, as JSON; {} for those without a quota"),
        column("user_tag", StringType(), "user tag of the bucket; empty if it has none"),
        column("client_tag", StringType(), "client-id tag of the bucket; empty if it has none"),
        column("more_tags", MapType(StringType(), StringType()), "other tags of the bucket, set by a callback"),
        column("decisions", LongType(), "number of all decisions"),
        column("topics_admitted", LongType(), "topics admitted, of effective mutations [topics]"),
        column("topics_refused", LongType(), "topics refused, of effective mutations [topics]"),
        column("admitted", LongType(), "effective mutations that were admitted [mutations]"),
        column("refused", LongType(), "effective mutations that were refused [mutations]"),
        column(
            "charged",
            LongType(),
            "mutations charged to the bucket; in shadow those that would have been admitted [mutations]",
        ),
        column("rate", DoubleType(), "charged / 60 s [mutations/s]"),
        column("tokens", DoubleType(), "K after the last decision of the minute; null for unlimited [mutations]"),
        column("lowest_tokens", DoubleType(), "lowest K of the minute; null for unlimited [mutations]"),
        column(
            "lowest_share", DoubleType(), "lowest K as a share of the burst (1 is a full bucket); null for unlimited"
        ),
        column("quota", DoubleType(), "Q at the last decision; null for unlimited [mutations/s]"),
        column("burst", DoubleType(), "B at the last decision; null for unlimited [mutations]"),
        column(
            "throttled", LongType(), "number of decisions with a throttle time of the bucket (not of a request quota)"
        ),
        column("mean_throttle_ms", DoubleType(), "mean throttle time of these decisions; 0 if there are none [ms]"),
        column(
            "longest_throttle_ms", IntegerType(), "longest throttle time of these decisions; 0 if there are none [ms]"
        ),
    ]
)
