"""The query that aggregates each tenant's decisions by minute, from the audit's table into its own table.

It is a separate query, because decisions may have to wait for the batches of the audit.
"""

from collections import Counter
from functools import partial, reduce
from operator import and_

from delta.exceptions import ConcurrentAppendException, ConcurrentDeleteDeleteException, ConcurrentDeleteReadException
from delta.tables import DeltaTable
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from jobs.audit.effective import SPARK, count_topics, sum_mutations
from jobs.audit.tables.conflicts import retry
from jobs.audit.tables.frames import follow_table, read_table
from jobs.audit.tables.preparation import missing_tables, prepare_tables
from jobs.audit.tables.specs import DECISIONS, TENANT_MINUTES
from jobs.audit.upkeep.schedule import Upkeep
from jobs.spark.bucket_order import newest_so_far
from jobs.spark.failures import query_errors
from jobs.spark.log_lines import QUERY_PROPERTY, batch_in_log
from jobs.spark.queries import trigger
from jobs.storage.files import Files
from jobs.storage.starting import check_stateless_checkpoint
from quota.settings import Settings
from schemas import tenant_minutes

NAME = TENANT_MINUTES.query
VERSION = 1
"""Part of the checkpoint's path; it is raised when the plan changes incompatibly."""

_KEY = ("date", "minute", "tenant")

_MINUTE_SECONDS = 60

_CONFLICTS = (ConcurrentAppendException, ConcurrentDeleteDeleteException, ConcurrentDeleteReadException)


@query_errors(NAME)
def start_minutes(
    spark: SparkSession, settings: Settings, *, once: bool = False, failures: Counter[str] | None = None
) -> StreamingQuery:
    """Start the query.

    Args:
        spark: the session.
        settings: the settings.
        once: whether the query ends with the decisions that are there.
        failures: counts failures of the upkeep, by table.

    Raises:
        MutationQuotaError: there is no table of decisions, or the query cannot continue its own table or checkpoint.
    """
    decisions = follow_table(spark, settings, DECISIONS)
    files = Files(spark, settings)
    missing = missing_tables(settings, [TENANT_MINUTES])
    checkpoint = check_stateless_checkpoint(files, NAME, VERSION, lambda _: -1, missing)
    prepare_tables(settings, files.names, [TENANT_MINUTES])
    upkeep = Upkeep(settings, NAME, settings.minutes.upkeep_seconds, once=once, failures=failures)
    spark.sparkContext.setLocalProperty(QUERY_PROPERTY, NAME)
    return (
        decisions.writeStream.queryName(NAME)
        .foreachBatch(partial(_write_batch, settings, upkeep))
        .option("checkpointLocation", f"{files.root}/{checkpoint.folder}")
        .trigger(**trigger(settings.minutes.trigger_seconds, once=once))
        .start()
    )


def _write_batch(settings: Settings, upkeep: Upkeep, batch: DataFrame, batch_id: int) -> None:
    with batch_in_log(NAME, batch_id):
        retry(partial(update_minutes, settings, batch), *_CONFLICTS)
        upkeep.after_batch()


def update_minutes(settings: Settings, batch: DataFrame) -> None:
    """Recompute the minutes that have decisions in a batch. Idempotent; late decisions are included."""
    touched = batch.select(*_key_columns()).distinct().persist()
    try:
        bounds = touched.agg(
            F.collect_set("date"), F.unix_seconds(F.min("minute")), F.unix_seconds(F.max("minute"))
        ).first()
        if bounds is None or not bounds[0]:
            return
        dates, first, last = bounds
        start, end = (F.timestamp_seconds(F.lit(each)) for each in (first, last + _MINUTE_SECONDS))
        # Delta finds files by both columns, so it reads few of them.
        in_bounds = F.col("date").isin(dates) & F.col("timestamp").between(start, end)
        decisions = read_table(batch.sparkSession, settings, DECISIONS).where(in_bounds)
        minutes = sum_minutes(decisions).join(touched, [*_KEY], "left_semi")
        same_key = [F.col(f"stored.{name}") == F.col(f"new.{name}") for name in _KEY]
        (
            DeltaTable.forPath(batch.sparkSession, settings.storage.table(TENANT_MINUTES.name))
            .alias("stored")
            .merge(minutes.alias("new"), reduce(and_, same_key, F.col("stored.date").isin(dates)))
            .whenMatchedUpdateAll()
            .whenNotMatchedInsertAll()
            .execute()
        )
    finally:
        touched.unpersist()


_SUMS = {
    "topics_admitted": count_topics("admitted", SPARK),
    "topics_refused": count_topics("refused", SPARK),
    "admitted": sum_mutations("admitted", SPARK),
    "refused": sum_mutations("refused", SPARK),
    "charged": sum_mutations("charged", SPARK),
}


def sum_minutes(decisions: DataFrame) -> DataFrame:
    """Sum up decisions (`schemas.decisions.TABLE`) by minute and tenant (`schemas.tenant_minutes.TABLE`)."""
    # A throttle time not longer than that of the request quota is not due to the bucket (KIP-599).
    throttle = F.when(F.col("controller_throttle_ms") > F.col("request_throttle_ms"), F.col("controller_throttle_ms"))
    newest = newest_so_far(_key_columns(), "source.")
    order = F.struct(newest.alias("newest"), "source.topic", "source.partition", "source.offset")
    return (
        decisions.withColumns({"throttle": throttle, "order": order})
        .withColumns({name: F.expr(total) for name, total in _SUMS.items()})
        .groupBy(*_key_columns())
        .agg(
            *(F.any_value(name).alias(name) for name in ("user_tag", "client_tag", "more_tags")),
            F.count("*").alias("decisions"),
            *(F.sum(name).alias(name) for name in _SUMS),
            F.min("tokens").alias("lowest_tokens"),
            F.min(F.col("tokens") / F.col("burst")).alias("lowest_share"),
            F.max_by(F.struct("tokens", "quota", "burst"), "order").alias("last"),
            F.count("throttle").alias("throttled"),
            F.coalesce(F.avg("throttle"), F.lit(0.0)).alias("mean_throttle_ms"),
            F.coalesce(F.max("throttle"), F.lit(0)).alias("longest_throttle_ms"),
        )
        .withColumn("rate", F.col("charged") / F.lit(float(_MINUTE_SECONDS)))
        .select("*", "last.*")
        .select(*tenant_minutes.TABLE.names)
    )


def _key_columns() -> list[Column]:
    """Return the columns of `_KEY` for a decision."""
    tags = F.map_concat(
        F.create_map(F.lit("user"), "user_tag", F.lit("client-id"), "client_tag"),
        F.coalesce("more_tags", F.create_map().cast("map<string,string>")),
    )
    present = F.map_filter(tags, lambda _, tag: tag != "")
    minute = F.date_trunc("minute", "timestamp")
    return [F.col("date"), minute.alias("minute"), F.to_json(present).alias("tenant")]
