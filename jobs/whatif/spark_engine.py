"""The engine of a what-if of many decisions: Spark."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import TimestampType

from jobs.audit.tables.specs import DECISIONS as TABLE
from jobs.spark.failures import query_errors
from jobs.spark.progress import command_session, with_progress
from jobs.whatif.engine import DECISIONS, NEWEST, ORDER, RECORDED, Fold, Stage
from quota.records.decision import Decision
from quota.settings import Settings
from schemas.kafka import SOURCE

_PARTITIONS_PER_CORE = 4
_NAMES = "map<string, string>"


class SparkEngine:
    """Tables that are computed when a query needs them, in parallel."""

    def __init__(self, spark: SparkSession, decisions: DataFrame) -> None:
        """Start from rows of `jobs.whatif.engine.RECORDED`."""
        self._spark = spark
        self._doing = ""
        decisions.createOrReplaceTempView(DECISIONS)

    def run(self, stage: Stage, fold: Fold) -> None:
        """Run a stage when its rows are needed; those of buckets are kept for several queries."""
        self._doing = stage.doing
        rows = self._spark.table(stage.source)
        if stage.bucket:
            rows = self._in_bucket_order(rows, stage.bucket).drop("newest", *SOURCE.names)
        target = rows.mapInArrow(fold, stage.schema)
        (target.persist() if stage.bucket else target).createOrReplaceTempView(stage.target)

    def query(self, text: str) -> Sequence[tuple[Any, ...]]:
        """Return the rows of a query."""
        return with_progress(self._spark, self._doing, self._spark.sql(text).collect)

    def _in_bucket_order(self, rows: DataFrame, bucket: Sequence[str]) -> DataFrame:
        partitions = _PARTITIONS_PER_CORE * self._spark.sparkContext.defaultParallelism
        newest = F.expr(NEWEST.format(bucket=", ".join(bucket)))
        together = rows.repartition(partitions, *bucket).alias("rows")
        return together.withColumn("newest", newest).sortWithinPartitions(*bucket, *ORDER)


@contextmanager
def spark_engine(settings: Settings, name: str, period: tuple[int | None, int | None]) -> Iterator[SparkEngine]:
    """Provide the engine with the audited decisions of a period (epoch ms, without its end)."""
    log = settings.storage.local_folder("logs") / f"{name}.log"
    with command_session(settings, name, log, delta=True) as spark, query_errors(name):
        spark.conf.set("spark.sql.codegen.wholeStage", "true")  # worthwhile for the many rows of a table
        yield SparkEngine(spark, read_audited(spark, settings, *period))


def read_audited(
    spark: SparkSession, settings: Settings, since: int | None = None, until: int | None = None
) -> DataFrame:
    """Return the audited decisions of a period (epoch ms, without its end)."""
    rows = spark.read.format("delta").load(settings.storage.table(TABLE.name))
    if since is not None:
        rows = rows.where(F.col("timestamp") >= F.timestamp_millis(F.lit(since)))
    if until is not None:
        rows = rows.where(F.col("timestamp") < F.timestamp_millis(F.lit(until)))
    return rows.select(_to_json(rows).cast("binary").alias(RECORDED.names[0]))


def _to_json(decisions: DataFrame) -> Column:
    """Return the JSON of decisions from rows of `schemas.decisions.TABLE`; rows of an older table lack some values."""
    values = {name: F.col(name) for name in Decision.__struct_fields__}
    times = [field.name for field in decisions.schema if isinstance(field.dataType, TimestampType)]
    values |= {name: F.unix_millis(values[name]) for name in times if name in values}
    values |= {name: F.coalesce(values[name], F.lit(False)) for name in ("exempt", "apply")}
    values["more_tags"] = F.coalesce(values["more_tags"], F.from_json(F.lit("{}"), _NAMES))
    values["quota_entity"] = F.from_json(values["quota_entity"], _NAMES)  # a map tells null from absent
    return F.to_json(F.struct(*(value.alias(name) for name, value in values.items())), {"ignoreNullFields": "false"})
