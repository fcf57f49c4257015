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
        column("date", DateType(), "of the minute, UTC; the table is partitioned by it"),
        column("minute", TimestampType(), "when it began"),
        column("tenant", StringType(), "who shares the bucket: its tags as JSON, {} for those without a quota"),
        column("user_tag", StringType(), "the user that shares the bucket; empty where the user takes no part"),
        column("client_tag", StringType(), "the client-id that shares the bucket; empty where it takes no part"),
        column("more_tags", MapType(StringType(), StringType()), "tags of the bucket that a callback has besides"),
        column("decisions", LongType(), "of the minute, all of them"),
        column("topics_admitted", LongType(), "asked for in earnest, and admitted [topics]"),
        column("topics_refused", LongType(), "likewise, and refused [topics]"),
        column("admitted", LongType(), "the partitions of the topics that were admitted [mutations]"),
        column("refused", LongType(), "the partitions of those that were refused [mutations]"),
        column("charged", LongType(), "to the bucket: of a quota in shadow what it would have admitted [mutations]"),
        column("rate", DoubleType(), "charged, by the sixty seconds of the minute [mutations/s]"),
        column("tokens", DoubleType(), "K after the last decision of the minute, null for unlimited [mutations]"),
        column("lowest_tokens", DoubleType(), "the lowest K of the minute, null for unlimited [mutations]"),
        column("lowest_share", DoubleType(), "the lowest share of the burst, null for unlimited; 1 is all of it"),
        column("quota", DoubleType(), "Q of the last decision, null for unlimited [mutations/s]"),
        column("burst", DoubleType(), "B of the last decision, null for unlimited [mutations]"),
        column("throttled", LongType(), "decisions that the bucket, and no request quota, had the client wait for"),
        column("mean_throttle_ms", DoubleType(), "the mean of the waits for the bucket; 0 where there were none [ms]"),
        column("longest_throttle_ms", IntegerType(), "the longest of them; 0 where there were none [ms]"),
    ]
)
