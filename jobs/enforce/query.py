"""The enforcing query: reads requests from Kafka, and writes decisions and dead letters to Kafka.

The first batches of a JVM and its workers take many times as long as later ones, so `warm` runs the same stages before.
"""

import json
import logging
import time
from tempfile import TemporaryDirectory
from typing import Any

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from jobs.enforce.stages import EnforceConfig, decide_requests, resolve_requests
from jobs.log_lines import QUERY_PROPERTY
from jobs.query_names import ENFORCE
from jobs.spark.failures import query_errors
from jobs.spark.kafka_source import kafka_options, read_records, read_requests
from jobs.spark.properties import PARTITIONS
from jobs.spark.queries import trigger
from jobs.storage.files import DeploymentSession
from jobs.storage.resumption import check_gaps, resume_checkpoint
from quota.admission.policy import Policy
from quota.errors import MutationQuotaError
from quota.kafka.quotas.log import KafkaQuotas
from quota.kafka.topics.specs import MAX_ANSWER_BYTES
from quota.kafka.topics.topic_admin import EARLIEST
from quota.settings import Settings
from schemas.buckets import STATE_VERSION
from schemas.kafka import RECORD

_log = logging.getLogger(__name__)

_PRODUCER_BYTES = 16 * 1024 * 1024
_QUOTA_TIMEOUT_SECONDS = 60.0
"""The time that the quota topic may be unreachable before the query fails [s]."""
_COMPRESSION = {"kafka.compression.type": "zstd"}
"""The compression of answers, unless `[kafka.java]` has another, for a cluster or a reader that lacks the codec."""

_WARMING = "warming"
_ROWS = 20
_ADVANCE_MS = 1000
_SHORT_POLL = {"kafkaConsumer.pollTimeoutMs": "5000"}
"""A standby that waits two minutes for a broker, Spark's default, would not see the lease meanwhile."""


@query_errors(ENFORCE)
def start_enforce(session: DeploymentSession, *, once: bool = False) -> StreamingQuery:
    """Start the query; its topics must be prepared (`quota.kafka.topics.preparation`)."""
    spark, settings, files = session.spark, session.settings, session.files
    checkpoint = resume_checkpoint(files, ENFORCE, STATE_VERSION, session.deployment)
    checkpoint.forget_topics(files, session.deployment.retired)
    check_gaps(settings, session.topics, ENFORCE, checkpoint.positions(files))
    spark.sparkContext.setLocalProperty("spark.scheduler.pool", ENFORCE)
    spark.sparkContext.setLocalProperty(QUERY_PROPERTY, ENFORCE)
    records = read_requests(spark, settings)
    if (checkpoint.state_partitions(files) or int(spark.conf.get(PARTITIONS) or 0)) == 1:
        records = records.coalesce(1)  # a batch is then one task, without a shuffle
    return (
        decided(records, settings)
        .writeStream.queryName(ENFORCE)
        .format("kafka")
        .options(**sink_options(settings))
        .option("checkpointLocation", f"{files.root}/{checkpoint.folder}")
        .outputMode("append")
        .trigger(**trigger(settings.enforce.trigger_seconds, once=once))
        .start()
    )


def decided(records: DataFrame, settings: Settings) -> DataFrame:
    """Decide records by the settings and the quotas of a deployment."""
    config = EnforceConfig(
        window=settings.quota.window,
        policy=Policy.of(settings),
        decisions_topic=settings.topics.decisions,
        dead_letters_topic=settings.topics.dead_letters,
    )
    return enforce(records, KafkaQuotas.from_settings(settings, _QUOTA_TIMEOUT_SECONDS), config)


def enforce(records: DataFrame, quotas: KafkaQuotas, config: EnforceConfig) -> DataFrame:
    """Decide records of the request topic (`schemas.kafka.RECORD`) into answers (`schemas.kafka.ANSWER`)."""
    return decide_requests(resolve_requests(records, quotas, config.policy), config)


def sink_options(settings: Settings) -> dict[str, str]:
    """Return the options of Spark's Kafka sink for answers."""
    largest = MAX_ANSWER_BYTES
    own = {
        "max.request.size": largest,
        "buffer.memory": _PRODUCER_BYTES + 2 * largest,
        "acks": "all",
        "enable.idempotence": "true",  # a producer's retry does not write an answer twice
    }
    return _COMPRESSION | kafka_options(settings, {f"kafka.{name}": str(value) for name, value in own.items()})


def warm(session: DeploymentSession, batches: int) -> float | None:
    """Run batches of synthetic records, and return how long the last one took [s].

    They have no timestamp of a broker, so they become dead letters before a quota or a callback sees them, and are
    dropped before the sink. The last record of the quota topic is read, too, so that the code for records of Kafka is
    compiled and loaded. The result is None if the batches cannot run, which the job survives, and on a cluster, because
    the checkpoint is in a temporary folder of this machine.
    """
    spark, settings = session.spark, session.settings
    if not str(spark.sparkContext.master).startswith("local"):
        return None
    jvm: Any = spark._jvm  # noqa: SLF001 PySpark has no other way to Java
    spark.sparkContext.setLocalProperty(QUERY_PROPERTY, _WARMING)
    parent = jvm.java.lang.System.getProperty("java.io.tmpdir")  # removed with the JVM, if it is killed
    try:
        with TemporaryDirectory(prefix="warm-", dir=parent, ignore_cleanup_errors=True) as folder:
            query = (
                decided(_synthetic_records(session, batches), settings)
                .where(F.col("topic") == "")
                .writeStream.queryName(_WARMING)
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
    except (PySparkException, Py4JError, MutationQuotaError) as error:
        _log.debug("cannot warm Spark: %s", error)
        return None


def _synthetic_records(session: DeploymentSession, batches: int) -> DataFrame:
    """Stream records of `schemas.kafka.RECORD` in so many batches; the last record of a topic is read, and dropped."""
    spark, settings, topic = session.spark, session.settings, session.settings.topics.quotas
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
    partitions = session.topics.ends(topic)
    firsts, ends = session.topics.offsets(partitions, EARLIEST), session.topics.offsets(partitions, stable=True)
    last = {partition: max(firsts[topic, partition], end - 1) for (_, partition), end in ends.items()}
    subscription = {"subscribe": topic, "startingOffsets": json.dumps({topic: last}), **_SHORT_POLL}
    # A condition on a column would change the code that is compiled for the others.
    read = read_records(spark, settings, subscription).where(F.rand() < 0)
    return records.unionByName(read).coalesce(1)
