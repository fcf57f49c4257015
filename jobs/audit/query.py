"""The audit query: decisions, dead letters and quota changes, from their topics into Delta tables."""

from collections import Counter
from functools import partial

from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import StructType

from jobs.audit.append import AuditConfig, MicroBatch, append_records
from jobs.audit.end_mark import with_end_mark
from jobs.audit.tables.preparation import missing_tables, newest_batch, prepare_tables
from jobs.audit.upkeep.schedule import Upkeep
from jobs.spark.failures import query_errors
from jobs.spark.kafka_source import read_topics
from jobs.spark.log_lines import QUERY_PROPERTY, batch_in_log
from jobs.spark.queries import trigger
from jobs.storage.retention import check_gaps
from jobs.storage.run import Run
from jobs.storage.starting import check_stateless_checkpoint
from quota.settings import Settings

NAME = "audit"
VERSION = 1
"""Part of the checkpoint's path; it is raised when the plan changes incompatibly."""


@query_errors(NAME)
def start_audit(run: Run, *, once: bool = False, failures: Counter[str] | None = None) -> StreamingQuery:
    """Start the query on prepared topics (`quota.kafka.topics.preparation`).

    Args:
        run: the session, the settings and the storage root.
        once: whether the query ends with the records that are there.
        failures: counts failures of the upkeep, by table.

    Raises:
        MutationQuotaError: the query cannot continue the existing tables or checkpoint.
    """
    spark, settings, files = run.spark, run.settings, run.files
    newest = partial(newest_batch, settings)
    checkpoint = check_stateless_checkpoint(files, NAME, VERSION, newest, missing_tables(settings))
    prepare_tables(settings, files.names)
    fail = settings.audit.fail_on_data_loss
    check_gaps(settings, NAME, checkpoint.positions(files), fail=fail)
    spark.sparkContext.setLocalProperty("spark.scheduler.pool", NAME)
    upkeep = Upkeep(settings, settings.audit.upkeep_seconds, once=once, failures=failures)
    spark.sparkContext.setLocalProperty(QUERY_PROPERTY, NAME)
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
        .foreachBatch(partial(write_batch, settings, upkeep))
        .option("checkpointLocation", f"{files.root}/{checkpoint.folder}")
        .trigger(**trigger(settings.audit.trigger_seconds, once=once))
        .start()
    )


def write_batch(settings: Settings, upkeep: Upkeep, batch: DataFrame, batch_id: int) -> None:
    """Append a micro-batch of records (`schemas.kafka.RECORD`) to the tables; stored ones are skipped."""
    # The query's id belongs to its checkpoint, so batches of a new checkpoint are not mistaken for stored ones.
    query_id = batch.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
    append = partial(append_records, AuditConfig.of(settings), MicroBatch(str(query_id), batch_id))
    with batch_in_log(NAME, batch_id):
        # In one task, which sees all copies of a record and writes one file for each table and date.
        with_end_mark(batch).mapInArrow(append, StructType()).collect()
        upkeep.after_batch()
