"""Warms a Spark: runs the stages of the enforcing query on records of its own, and writes nothing.

The first batches of a JVM and its workers take many times as long as later ones. The records have no timestamp of a
broker, so they become dead letters before a quota or a callback sees them, and are dropped before the sink. The
checkpoint is in a temporary folder of this machine, so on a cluster nothing is warmed.
"""

import logging
import time
from tempfile import TemporaryDirectory
from typing import Any

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from jobs.enforce.query import decided, sink_options
from jobs.log_lines import QUERY_PROPERTY
from jobs.spark.kafka_source import read_records
from jobs.storage.files import DeploymentSession
from schemas.kafka import RECORD

_log = logging.getLogger(__name__)

_NAME = "warming"
_ROWS = 20
_ADVANCE_MS = 1000


def warm(session: DeploymentSession, batches: int) -> float | None:
    """Run batches, and return how long the last one took [s]; None if they cannot run, which the job survives."""
    spark, settings = session.spark, session.settings
    if not str(spark.sparkContext.master).startswith("local"):
        return None
    jvm: Any = spark._jvm  # noqa: SLF001 PySpark has no other way to Java
    spark.sparkContext.setLocalProperty(QUERY_PROPERTY, _NAME)
    parent = jvm.java.lang.System.getProperty("java.io.tmpdir")  # removed with the JVM, if it is killed
    try:
        with TemporaryDirectory(prefix="warm-", dir=parent, ignore_cleanup_errors=True) as folder:
            query = (
                decided(_records(session, batches), settings)
                .where(F.col("topic") == "")
                .writeStream.queryName(_NAME)
                .format("kafka")
                .options(**sink_options(settings))
                .option("checkpointLocation", f"file://{folder}")
                .outputMode("append")
                .trigger(availableNow=True)
                .start()
            )
            query.awaitTermination()
            last = query.lastProgress
            return None if last is None else last["durationMs"]["triggerExecution"] / 1000
    except (PySparkException, Py4JError) as error:
        _log.debug("cannot warm Spark: %s", error)
        return None


def _records(session: DeploymentSession, batches: int) -> DataFrame:
    """Stream records of `schemas.kafka.RECORD` in so many batches; of a topic, which is opened, only later ones."""
    spark, settings = session.spark, session.settings
    values = {
        "topic": F.lit(settings.topics.requests),
        "partition": F.lit(0),
        "offset": F.col("value"),
        "timestamp": F.lit(None).cast("long"),
        "key": F.lit("warm").cast("binary"),
        "value": F.lit("{}").cast("binary"),
    }
    options = {
        "rowsPerBatch": _ROWS,
        "numPartitions": 1,
        "advanceMillisPerBatch": _ADVANCE_MS,
        "startTimestamp": round(time.time() * 1000) - batches * _ADVANCE_MS,
    }
    synthetic = spark.readStream.format("rate-micro-batch").options(**options).load()
    records = synthetic.select(*(values[name].alias(name) for name in RECORD.names))
    later = {"subscribe": settings.topics.quotas, "startingOffsets": "latest"}
    opened = read_records(spark, settings, later).where(F.col("offset") < 0)
    return records.unionByName(opened).coalesce(1)
