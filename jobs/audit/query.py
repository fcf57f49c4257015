"""The query that keeps everything: decisions, dead letters and quota changes, from their topics into Delta tables."""

from functools import partial, reduce

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from jobs.audit.rows import (
    dead_letter_rows,
    decision_rows,
    quota_change_rows,
    read_quota_changes,
    skipped_quota_rows,
    stray_rows,
)
from jobs.audit.tables import (
    DEAD_LETTERS,
    DECISIONS,
    QUOTA_CHANGES,
    append_new,
    missing_tables,
    newest_batches,
    prepare_tables,
)
from jobs.spark.kafka_source import read_topics
from jobs.spark.queries import query_errors, trigger
from jobs.storage.checkpoint import check_stateless_checkpoint
from jobs.storage.files import Files
from jobs.storage.retention import check_gaps
from quota.settings.model import Settings
from quota.settings.storage import checkpoint_path, table_path
from schemas import dead_letters, decisions

NAME = "audit"
VERSION = 1
"""Part of the checkpoint's path: goes up when the plan changes incompatibly."""


@query_errors(NAME)
def start_audit(spark: SparkSession, settings: Settings, *, once: bool = False) -> StreamingQuery:
    """Start the query on topics that are prepared (`quota.kafka.topics.specs`).

    Raises:
        MutationQuotaError: it cannot go on with the tables or the checkpoint that are there.
    """
    files = Files(spark, settings)
    missing, newest = missing_tables(spark, settings), newest_batches(spark, settings)
    checkpoint = check_stateless_checkpoint(files, NAME, VERSION, newest, missing)
    prepare_tables(spark, settings)
    fail = settings.audit.fail_on_data_loss
    check_gaps(settings, NAME, checkpoint.positions(files), fail=fail)
    spark.sparkContext.setLocalProperty("spark.scheduler.pool", NAME)
    topics = (settings.topics.decisions, settings.topics.dead_letters, settings.topics.quotas)
    return (
        read_topics(
            spark,
            settings,
            topics,
            settings.audit.max_records_per_batch,
            fail_on_data_loss=fail,
        )
        .writeStream.queryName(NAME)
        .foreachBatch(partial(keep, settings))
        .option("checkpointLocation", checkpoint_path(settings, NAME, VERSION))
        .trigger(**trigger(settings.audit.trigger_seconds, once=once))
        .start()
    )


def keep(settings: Settings, batch: DataFrame, batch_id: int) -> None:
    """Append a batch of records (`schemas.kafka.RECORD`) to the tables; the same records again add nothing."""
    batch = batch.persist(StorageLevel.DISK_ONLY)  # it is read for each table, and may hold large records
    try:
        found = {row.topic for row in batch.select("topic").distinct().collect()}
        topics = settings.topics
        tables = {}
        letters = []
        if topics.decisions in found:
            decided = batch.where(F.col("topic") == topics.decisions)
            tables[DECISIONS] = decision_rows(decided)
            letters.append(stray_rows(decided, decisions.RECORD))
        if topics.dead_letters in found:
            dead = batch.where(F.col("topic") == topics.dead_letters)
            letters += [dead_letter_rows(dead), stray_rows(dead, dead_letters.RECORD)]
        if topics.quotas in found:
            changes = read_quota_changes(batch.where(F.col("topic") == topics.quotas))
            tables[QUOTA_CHANGES] = quota_change_rows(changes)
            letters.append(skipped_quota_rows(changes))
        if letters:
            tables[DEAD_LETTERS] = reduce(DataFrame.unionByName, letters)
        for table, rows in tables.items():
            append_new(rows, table_path(settings, table.name), batch_id, dated=table.dated)
    finally:
        batch.unpersist()
