"""The query that adds up each tenant's decisions by the minute, from the audit's table into one of its own.

It stands apart from the audit, whose batches an answer may have to wait for.
"""

from functools import partial, reduce
from operator import and_

from delta.tables import DeltaTable
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from jobs.audit.tables import DECISIONS, TableSpec, follow_table, missing_tables, prepare_tables, read_table
from jobs.spark.bucket_order import newest_so_far
from jobs.spark.queries import query_errors, trigger
from jobs.storage.checkpoint import check_stateless_checkpoint
from jobs.storage.files import Files
from quota.settings.model import Settings
from quota.settings.storage import checkpoint_path, table_path
from schemas import tenant_minutes

NAME = "minutes"
VERSION = 1
"""Part of the checkpoint's path: goes up when the plan changes incompatibly."""

TENANT_MINUTES = TableSpec(
    "tenant_minutes",
    tenant_minutes.TABLE,
    tenant_minutes.VERSION,
    compacts=True,
    query=NAME,
    again="all minutes are made again of the decisions that are there",
)

_KEY = ("date", "minute", "tenant")
"""What tells the rows apart."""

_MINUTE = 60
"""Seconds."""


@query_errors(NAME)
def start_minutes(spark: SparkSession, settings: Settings, *, once: bool = False) -> StreamingQuery:
    """Start the query.

    Raises:
        MutationQuotaError: there is no table of decisions, or it cannot go on with its own table or checkpoint.
    """
    decided = follow_table(spark, settings, DECISIONS)
    missing = missing_tables(spark, settings, [TENANT_MINUTES])
    check_stateless_checkpoint(Files(spark, settings), NAME, VERSION, {}, missing)
    prepare_tables(spark, settings, [TENANT_MINUTES])
    return (
        decided.writeStream.queryName(NAME)
        .foreachBatch(partial(add_up, settings))
        .option("checkpointLocation", checkpoint_path(settings, NAME, VERSION))
        .trigger(**trigger(settings.minutes.trigger_seconds, once=once))
        .start()
    )


def add_up(settings: Settings, batch: DataFrame, _batch_id: int) -> None:
    """Add up anew what a batch of decisions has come for: the same again gives the same, and so do late ones."""
    touched = batch.select(*_by_minute()).distinct().persist()
    try:
        bounds = touched.agg(
            F.collect_set("date"), F.unix_seconds(F.min("minute")), F.unix_seconds(F.max("minute"))
        ).first()
        if bounds is None or not bounds[0]:
            return
        dates, first, last = bounds
        start, end = (F.timestamp_seconds(F.lit(each)) for each in (first, last + _MINUTE))
        # Both are what Delta looks up files by: few of the table are read.
        at_that_time = F.col("date").isin(dates) & F.col("timestamp").between(start, end)
        decided = read_table(batch.sparkSession, settings, DECISIONS).where(at_that_time)
        added_up = tenant_minutes_of(decided).join(touched, [*_KEY], "left_semi")
        same = [F.col(f"kept.{name}") == F.col(f"new.{name}") for name in _KEY]
        (
            DeltaTable.forPath(batch.sparkSession, table_path(settings, TENANT_MINUTES.name))
            .alias("kept")
            .merge(added_up.alias("new"), reduce(and_, same, F.col("kept.date").isin(dates)))
            .whenMatchedUpdateAll()
            .whenNotMatchedInsertAll()
            .execute()
        )
    finally:
        touched.unpersist()


def tenant_minutes_of(decisions: DataFrame) -> DataFrame:
    """From decisions (`schemas.decisions.TABLE`) to the sums of their minutes (`schemas.tenant_minutes.TABLE`)."""
    waited = F.when(F.col("controller_throttle_ms") > F.col("request_throttle_ms"), F.col("controller_throttle_ms"))
    newest = newest_so_far(_by_minute(), "source.")
    place = F.struct(newest.alias("newest"), "source.topic", "source.partition", "source.offset")
    return (
        decisions.withColumns({"asked": _asked_in_earnest(), "waited": waited, "place": place})
        .withColumns(
            {
                "topics_admitted": F.size(_where("admitted")),
                "topics_refused": F.size(_where("refused")),
                "admitted": _mutations("admitted"),
                "refused": _mutations("refused"),
                "charged": _mutations("charged"),
            }
        )
        .groupBy(*_by_minute())
        .agg(
            *(F.any_value(name).alias(name) for name in ("user_tag", "client_tag", "more_tags")),
            F.count("*").alias("decisions"),
            *(F.sum(name).alias(name) for name in _SUMS),
            F.min("tokens").alias("lowest_tokens"),
            F.min(F.col("tokens") / F.col("burst")).alias("lowest_share"),
            F.max_by(F.struct("tokens", "quota", "burst"), "place").alias("last"),
            F.count("waited").alias("throttled"),
            F.coalesce(F.avg("waited"), F.lit(0.0)).alias("mean_throttle_ms"),
            F.coalesce(F.max("waited"), F.lit(0)).alias("longest_throttle_ms"),
        )
        .withColumn("rate", F.col("charged") / F.lit(float(_MINUTE)))
        .select("*", "last.*")
        .select(*tenant_minutes.TABLE.names)
    )


_SUMS = ("topics_admitted", "topics_refused", "admitted", "refused", "charged")


def _by_minute() -> list[Column]:
    """The key of a decision's row."""
    tags = F.map_concat(
        F.create_map(F.lit("user"), "user_tag", F.lit("client-id"), "client_tag"),
        F.coalesce("more_tags", F.create_map().cast("map<string,string>")),
    )
    taking_part = F.map_filter(tags, lambda _, tag: tag != "")
    minute = F.date_trunc("minute", "timestamp")
    return [F.col("date"), minute.alias("minute"), F.to_json(taking_part).alias("tenant")]


def _asked_in_earnest() -> Column:
    """A decision's topics without those that only ask (`validate_only`), or were paid for before (`repeats`)."""
    paid = F.coalesce("repeats.topics", F.lit(0))
    in_shadow = F.col("shadow.error_codes")

    def told(topic: Column, number: Column) -> Column:
        judged = F.coalesce(F.get(in_shadow, number), topic["error_code"])
        return F.struct(
            number.alias("number"),
            topic["partitions"].alias("partitions"),
            (topic["error_code"] == 0).alias("admitted"),
            (topic["error_code"] != 0).alias("refused"),
            ((judged == 0) & F.col("quota").isNotNull()).alias("charged"),
        )

    return F.filter(F.transform("topics", told), lambda topic: ~F.col("validate_only") & (topic["number"] >= paid))


def _where(outcome: str) -> Column:
    return F.filter("asked", lambda topic: topic[outcome])


def _mutations(outcome: str) -> Column:
    nothing = F.lit(0).cast("bigint")
    return F.aggregate(_where(outcome), nothing, lambda so_far, topic: so_far + topic["partitions"])
