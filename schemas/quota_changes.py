"""Quota changes: the Delta table with the whole history of the compacted topic `mutation-quotas`."""

from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DateType,
    DoubleType,
    LongType,
    MapType,
    StringType,
    StructType,
    TimestampType,
)

from schemas.column import column
from schemas.source import SOURCE

VERSION = 3

_CHANGE = [
    column(
        "kind",
        StringType(),
        "quota, bucket_reset, callback, cluster; cancel, callback_cancel: a scheduled one taken back",
    ),
    column("entity", StringType(), "of a quota: whose it is, as JSON, as in the record; else null"),
    column("user", StringType(), "a name, '<default>', or null where the user takes no part"),
    column("client_id", StringType(), "a name, '<default>', or null where the client-id takes no part"),
    column("controller_mutation_rate", DoubleType(), "the quota, null where it was removed [mutations/s]"),
    column("controller_mutation_burst", DoubleType(), "how much may be used at once, null for Q * S * W [mutations]"),
    column("max_debt_ms", LongType(), "the longest wait that one request can bring, null for no bound [ms]"),
    column("shadow", BooleanType(), "whether it is decided and reported, but all admitted"),
    column("bucket", StringType(), "of a reset: the tags of the buckets, as JSON; else null"),
    column("callback", StringType(), "the class that judges from then on, null for that of the settings"),
    column("callback_configs", MapType(StringType(), StringType()), "what the callback is configured with"),
    column("cluster", StringType(), "topics and the leader of each partition, as JSON"),
    column("altered_by", StringType(), "who made the change"),
    column("comment", StringType(), "why"),
    column(
        "altered_configs",
        ArrayType(StringType()),
        "what of it is new, where the rest was copied from what held before; null where it was set as a whole",
    ),
]

READ = StructType(
    [
        column("source", SOURCE, "where the record stands"),
        column("timestamp", LongType(), "of the record [epoch ms]"),
        column("effective_at", LongType(), "from when on it holds, where that is not at once [epoch ms]"),
        *_CHANGE,
        column("error", StringType(), "why the record is no quota, else null"),
        column("value", StringType(), "such a record as it came, else null"),
    ]
)
"""A record of the topic as the audit reads it."""

TABLE = StructType(
    [
        column("date", DateType(), "of the record, UTC; the table is partitioned by it"),
        column("source", SOURCE, "where the record stands"),
        column("timestamp", TimestampType(), "when the change was made"),
        column("effective_at", TimestampType(), "from when on it holds"),
        *_CHANGE,
    ]
)
