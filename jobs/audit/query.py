"""The audit query: decisions, dead letters and quota changes, from their topics into Delta tables."""

from collections import Counter
from functools import partial

from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import StructType

from jobs.audit.append import AuditConfig, append_records
from jobs.audit.tables import missing_tables, prepare_tables
from jobs.audit.upkeep_schedule import Upkeep
from jobs.log_lines import QUERY_PROPERTY, batch_in_log
from jobs.query_names import AUDIT
from jobs.spark.failures import query_errors
from jobs.spark.kafka_source import read_topics
from jobs.spark.queries import trigger
from jobs.storage.files import DeploymentSession
from jobs.storage.resumption import check_gaps, check_stateless_checkpoint
from quota.settings import Settings

VERSION = 1
"""Part of the checkpoint's path; it is raised when the plan changes incompatibly."""

_MAX_RECORDS = 50_000


@query_errors(AUDIT)
def start_audit(
    session: DeploymentSession, *, once: bool = False, failures: Counter[str] | None = None
) -> StreamingQuery:
    """Start the query on prepared topics (`quota.kafka.topics.preparation`)."""
    spark, settings, files = session.spark, session.settings, session.files
    checkpoint = check_stateless_checkpoint(files, AUDIT, VERSION, missing_tables(settings))
    prepare_tables(settings, files.names)
    check_gaps(settings, session.topics, AUDIT, checkpoint.positions(files))
    spark.sparkContext.setLocalProperty("spark.scheduler.pool", AUDIT)
    upkeep = Upkeep(settings, settings.audit.upkeep_seconds, once=once, failures=failures)
    spark.sparkContext.setLocalProperty(QUERY_PROPERTY, AUDIT)
    topics = (settings.topics.decisions, settings.topics.dead_letters, settings.topics.quotas)
    return (
        read_topics(spark, settings, topics, _MAX_RECORDS)
        .writeStream.queryName(AUDIT)
        .foreachBatch(partial(write_batch, settings, upkeep))
        .option("checkpointLocation", f"{files.root}/{checkpoint.folder}")
        .trigger(**trigger(settings.audit.trigger_seconds, once=once))
        .start()
    )


def write_batch(settings: Settings, upkeep: Upkeep, batch: DataFrame, batch_id: int) -> None:
    """Append a micro-batch of records (`schemas.kafka.RECORD`) to the tables; stored ones are skipped."""
    append = partial(append_records, AuditConfig.of(settings))
    with batch_in_log(AUDIT, batch_id):
        # In one task, which writes one file for each table and date.
        batch.coalesce(1).mapInArrow(append, StructType()).collect()
        upkeep.after_batch()
