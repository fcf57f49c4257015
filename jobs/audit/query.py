"""The audit query: decisions, dead letters and quota changes, from their topics into Delta tables."""

from collections import Counter
from functools import partial

from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import StructType

from jobs.audit.append import AuditConfig, append_records
from jobs.audit.tables.preparation import missing_tables, prepare_tables
from jobs.audit.upkeep.schedule import Upkeep
from jobs.log_lines import QUERY_PROPERTY, batch_in_log
from jobs.spark.failures import query_errors
from jobs.spark.kafka_source import read_topics
from jobs.spark.queries import trigger
from jobs.storage.files import Run
from jobs.storage.resumption import check_gaps, check_stateless_checkpoint
from quota.settings import Settings

NAME = "audit"
VERSION = 1
"""Part of the checkpoint's path; it is raised when the plan changes incompatibly."""

_MAX_RECORDS = 50_000
"""The maximum number of records in a micro-batch."""


@query_errors(NAME)
def start_audit(run: Run, *, once: bool = False, failures: Counter[str] | None = None) -> StreamingQuery:
    """Start the query on prepared topics (`quota.kafka.topics.preparation`)."""
    spark, settings, files = run.spark, run.settings, run.files
    checkpoint = check_stateless_checkpoint(files, NAME, VERSION, missing_tables(settings))
    prepare_tables(settings, files.names)
    check_gaps(settings, NAME, checkpoint.positions(files))
    spark.sparkContext.setLocalProperty("spark.scheduler.pool", NAME)
    upkeep = Upkeep(settings, settings.audit.upkeep_seconds, once=once, failures=failures)
    spark.sparkContext.setLocalProperty(QUERY_PROPERTY, NAME)
    topics = (settings.topics.decisions, settings.topics.dead_letters, settings.topics.quotas)
    return (
        read_topics(spark, settings, topics, _MAX_RECORDS)
        .writeStream.queryName(NAME)
        .foreachBatch(partial(write_batch, settings, upkeep))
        .option("checkpointLocation", f"{files.root}/{checkpoint.folder}")
        .trigger(**trigger(settings.audit.trigger_seconds, once=once))
        .start()
    )


def write_batch(settings: Settings, upkeep: Upkeep, batch: DataFrame, batch_id: int) -> None:
    """Append a micro-batch of records (`schemas.kafka.RECORD`) to the tables; stored ones are skipped."""
    append = partial(append_records, AuditConfig.of(settings))
    with batch_in_log(NAME, batch_id):
        # In one task, which writes one file for each table and date.
        batch.coalesce(1).mapInArrow(append, StructType()).collect()
        upkeep.after_batch()
