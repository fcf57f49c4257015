"""Quota changes: the Delta table that keeps the whole history of the compacted topic `mutation-quotas`."""

from pyspark.sql.types import (
    BooleanType,
    DateType,
    DoubleType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from schemas.source import SOURCE

VERSION = 2

_CHANGE = [
    # quota, bucket_reset, callback, cluster; cancel, callback_cancel: a scheduled one taken back
    StructField("kind", StringType()),
    StructField("entity", StringType()),  # of a quota: as JSON, as in the record; else null
    StructField("user", StringType()),  # a name, '<default>', or null where the user takes no part
    StructField("client_id", StringType()),  # likewise
    StructField("controller_mutation_rate", DoubleType()),  # mutations/s, null where the quota was removed
    StructField("controller_mutation_burst", DoubleType()),  # mutations at once, null for Q * S * W
    StructField("max_debt_ms", LongType()),  # bound on debt, null for none
    StructField("shadow", BooleanType()),  # decided and reported, but admitted
    StructField("bucket", StringType()),  # of a reset: the tags of the buckets, as JSON
    StructField("callback", StringType()),  # the class that judges from then on, null for that of the settings
    StructField("callback_configs", MapType(StringType(), StringType())),
    StructField("cluster", StringType()),  # topics and the leader of each partition, as JSON
    StructField("altered_by", StringType()),
    StructField("comment", StringType()),
]

READ = StructType(
    [
        StructField("source", SOURCE),
        StructField("timestamp", LongType()),  # of the record, epoch ms
        StructField("effective_at", LongType()),  # the moment from which the change holds, epoch ms
        *_CHANGE,
        StructField("error", StringType()),  # why the record is no quota, else null
        StructField("value", StringType()),  # such a record as it came, else null
    ]
)
"""A record of the topic as it was read."""

TABLE = StructType(
    [
        StructField("date", DateType()),  # of the record, UTC; the table is partitioned by it
        StructField("source", SOURCE),
        StructField("timestamp", TimestampType()),  # when the change was made
        StructField("effective_at", TimestampType()),  # from when on it holds
        *_CHANGE,
    ]
)
