"""The audit query: decisions, dead letters and quota changes, from their topics into Delta tables."""

from functools import partial, reduce

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from jobs.audit.rows import (
    dead_letter_rows,
    decision_rows,
    foreign_rows,
    quota_change_rows,
    read_quota_changes,
    skipped_quota_rows,
)
from jobs.audit.specs import DEAD_LETTERS, DECISIONS, QUOTA_CHANGES
from jobs.audit.tables import append_new, missing_tables, newest_batches, prepare_tables
from jobs.spark.failures import query_errors
from jobs.spark.kafka_source import read_topics
from jobs.spark.queries import trigger
from jobs.storage.files import Files
from jobs.storage.retention import check_gaps
from jobs.storage.starting import check_stateless_checkpoint
from quota.settings import Settings
from schemas import dead_letters, decisions

NAME = "audit"
VERSION = 1
"""Part of the checkpoint's path; it is raised when the plan changes incompatibly."""


@query_errors(NAME)
def start_audit(spark: SparkSession, settings: Settings, *, once: bool = False) -> StreamingQuery:
    """Start the query on prepared topics (`quota.kafka.topics.preparation`).

    Raises:
        MutationQuotaError: the query cannot continue the existing tables or checkpoint.
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
        .foreachBatch(partial(write_batch, settings))
        .option("checkpointLocation", settings.storage.checkpoint(NAME, VERSION))
        .trigger(**trigger(settings.audit.trigger_seconds, once=once))
        .start()
    )


def write_batch(settings: Settings, batch: DataFrame, batch_id: int) -> None:
    """Append a batch of records (`schemas.kafka.RECORD`) to the tables; records that they hold are left out."""
    batch = batch.persist(StorageLevel.DISK_ONLY)  # it is read once per table, and may hold large records
    try:
        present = {row.topic for row in batch.select("topic").distinct().collect()}
        topics = settings.topics
        tables = {}
        letters = []
        if topics.decisions in present:
            records = batch.where(F.col("topic") == topics.decisions)
            tables[DECISIONS] = decision_rows(records)
            letters.append(foreign_rows(records, decisions.RECORD))
        if topics.dead_letters in present:
            records = batch.where(F.col("topic") == topics.dead_letters)
            letters += [dead_letter_rows(records), foreign_rows(records, dead_letters.RECORD)]
        if topics.quotas in present:
            changes = read_quota_changes(batch.where(F.col("topic") == topics.quotas))
            tables[QUOTA_CHANGES] = quota_change_rows(changes)
            letters.append(skipped_quota_rows(changes))
        if letters:
            tables[DEAD_LETTERS] = reduce(DataFrame.unionByName, letters)
        for table, rows in tables.items():
            append_new(rows, settings.storage.table(table.name), batch_id, dated=table.dated)
    finally:
        batch.unpersist()
