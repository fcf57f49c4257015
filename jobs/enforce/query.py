"""The enforcing query: reads requests from Kafka, and writes decisions and dead letters to Kafka.

The first batches of a JVM and its workers take many times as long as later ones, so `warm` runs the same stages before.
"""

import json
import logging
from collections.abc import Mapping
from tempfile import TemporaryDirectory
from typing import Any

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from jobs.enforce.packing import pack_request
from jobs.enforce.stages import EnforceConfig, decide_requests, resolve_requests
from jobs.log_lines import QUERY_PROPERTY
from jobs.query_names import ENFORCE
from jobs.spark.failures import query_errors, reason_in
from jobs.spark.kafka_source import kafka_options, read_records, read_requests
from jobs.spark.properties import CHECKPOINT_FILES, LOCAL_CHECKPOINTS, PARTITIONS
from jobs.spark.queries import trigger
from jobs.storage.files import DeploymentSession
from jobs.storage.resumption import check_gaps, resume_checkpoint
from quota.admission.policy import Policy
from quota.errors import MutationQuotaError
from quota.kafka.quotas.log import KafkaQuotas
from quota.kafka.topics.specs import MAX_ANSWER_BYTES
from quota.kafka.topics.topic_admin import EARLIEST
from quota.records import codec
from quota.records.entity import QuotaEntity, Tags
from quota.records.levels import Limit, Resolution, ResolvedRequest
from quota.records.quota_log import Quota
from quota.records.record import Record, Source
from quota.records.request import MutationRequest, Operation, TopicMutation
from quota.settings import Settings
from schemas.buckets import RESOLVED, STATE_VERSION
from schemas.kafka import RECORD

_log = logging.getLogger(__name__)

_PRODUCER_BYTES = 16 * 1024 * 1024
_QUOTA_TIMEOUT_SECONDS = 60.0
"""The time that the quota topic may be unreachable before the query fails [s]."""
_COMPRESSION = {"kafka.compression.type": "zstd"}
"""The compression of answers, unless `[kafka.java]` has another, for a cluster or a reader that lacks the codec."""

_CHANGELOG = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"
"""Whether a batch writes its changes of the state; otherwise it writes a snapshot."""

_WARMING = "warming"
_SHORT_POLL = {"kafkaConsumer.pollTimeoutMs": "5000"}
"""A standby that waits two minutes for a broker, Spark's default, would not see the lease meanwhile."""


@query_errors(ENFORCE)
def start_enforce(
    session: DeploymentSession, *, once: bool = False, answers: DataFrame | None = None
) -> StreamingQuery:
    """Start the query; its topics must be prepared (`quota.kafka.topics.preparation`).

    `answers` are those of `plan_answers`, if a standby has planned them before.
    """
    spark, settings, files = session.spark, session.settings, session.files
    checkpoint = resume_checkpoint(files, ENFORCE, STATE_VERSION, session.deployment)
    checkpoint.forget_topics(files, session.deployment.retired)
    check_gaps(settings, session.topics, ENFORCE, checkpoint.positions(files))
    spark.sparkContext.setLocalProperty("spark.scheduler.pool", ENFORCE)
    spark.sparkContext.setLocalProperty(QUERY_PROPERTY, ENFORCE)
    started = trigger(settings.enforce.trigger_seconds, once=once)
    answers = plan_answers(session) if answers is None else answers
    return _start(ENFORCE, answers, settings, f"{files.root}/{checkpoint.folder}", started)


def plan_answers(session: DeploymentSession) -> DataFrame:
    """Plan the answers to all requests; no record is read before the query starts."""
    records = read_requests(session.spark, session.settings)
    if session.spark.conf.get(PARTITIONS) == "1":
        records = records.coalesce(1)  # a batch is then one task, without a shuffle
    return enforce(records, *_rules(session.settings))


def enforce(records: DataFrame, quotas: KafkaQuotas, config: EnforceConfig) -> DataFrame:
    """Decide records of the request topic (`schemas.kafka.RECORD`) into answers (`schemas.kafka.ANSWER`)."""
    return decide_requests(resolve_requests(records, quotas, config.policy), config)


def _rules(settings: Settings) -> tuple[KafkaQuotas, EnforceConfig]:
    config = EnforceConfig(
        window=settings.quota.window,
        policy=Policy.of(settings),
        decisions_topic=settings.topics.decisions,
        dead_letters_topic=settings.topics.dead_letters,
    )
    return KafkaQuotas.from_settings(settings, _QUOTA_TIMEOUT_SECONDS), config


def _start(
    name: str, answers: DataFrame, settings: Settings, checkpoint: str, started: Mapping[str, Any]
) -> StreamingQuery:
    return (
        answers.writeStream.queryName(name)
        .format("kafka")
        .options(**sink_options(settings))
        .option("checkpointLocation", checkpoint)
        .outputMode("append")
        .trigger(**started)
        .start()
    )


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


def warm(session: DeploymentSession) -> float | None:
    """Decide synthetic requests in two batches, and return how long the second one took [s].

    The second batch is that of another query, which resumes from the first one's checkpoint, as a query does that takes
    over. The answers are dropped before the sink. The result is None if the batches cannot run, which the job survives,
    and on a cluster, because the checkpoint is in a temporary folder of this machine. An exited JVM is an error.
    """
    spark = session.spark
    if not str(spark.sparkContext.master).startswith("local"):
        return None
    jvm: Any = spark._jvm  # noqa: SLF001 PySpark has no other way to Java
    spark.sparkContext.setLocalProperty(QUERY_PROPERTY, _WARMING)
    parent = jvm.java.lang.System.getProperty("java.io.tmpdir")  # removed with the JVM, if it is killed
    before = {name: spark.conf.get(name, None) for name in (_CHANGELOG, CHECKPOINT_FILES)}
    try:
        spark.conf.set(CHECKPOINT_FILES, LOCAL_CHECKPOINTS)  # wherever the storage root is
        answers = _synthetic_answers(session)
        with TemporaryDirectory(prefix="warm-", dir=parent, ignore_cleanup_errors=True) as folder:
            # The first query writes a snapshot of the state, which the second one reads.
            for changelog in ("false", before[_CHANGELOG] or "false"):
                spark.conf.set(_CHANGELOG, changelog)
                query = _start(_WARMING, answers, session.settings, f"file://{folder}", {"availableNow": True})
                query.awaitTermination()
            last = query.lastProgress
            return None if last is None else last["durationMs"]["triggerExecution"] / 1000
    except (PySparkException, Py4JError, MutationQuotaError) as error:
        _log.warning("Spark is not warm, so the first decisions will take longer: %s", reason_in(str(error)))
        return None
    finally:
        for name, value in before.items():
            spark.conf.unset(name) if value is None else spark.conf.set(name, value)


def _synthetic_answers(session: DeploymentSession) -> DataFrame:
    """Plan the stages of `plan_answers` for synthetic records, and drop the answers.

    The records are no requests, so they become dead letters before a quota is looked up or a callback is called.
    Between the stages, requests of one bucket take their place.
    """
    quotas, config = _rules(session.settings)
    resolved = resolve_requests(_synthetic_records(session), quotas, config.policy)
    prefix = config.policy.user_topic_prefix
    topic = _WARMING if prefix is None else f"{prefix}.{_WARMING}"
    mutation = TopicMutation(name=_WARMING, partitions=1)
    request = MutationRequest(_WARMING, Operation.CREATE_TOPICS, 7, [mutation], user=_WARMING)
    record = Record(Source(topic, 0, 0), 0, codec.encode(request))
    entity, limit = QuotaEntity(_WARMING), Limit(Quota(1.0), 0)
    row = pack_request(record, ResolvedRequest(record, request, Resolution(Tags(_WARMING, ""), limit, entity)))
    # A random condition, because one that Spark could evaluate would change the code that is compiled.
    decided = resolved.select(*(F.when(F.rand() >= 0, F.lit(row[name])).alias(name) for name in RESOLVED.names))
    return decide_requests(decided, config).where(F.rand() < 0)


def _synthetic_records(session: DeploymentSession) -> DataFrame:
    """Stream records of `schemas.kafka.RECORD`; the last record of a topic is read with them, and dropped."""
    spark, settings, topic = session.spark, session.settings, session.settings.topics.quotas
    values = {
        "topic": F.lit(settings.topics.requests),
        "partition": F.lit(0),
        "offset": F.col("value"),
        "timestamp": F.lit(None).cast("long"),
        "key": F.lit("warm").cast("binary"),
        "value": F.lit("{}").cast("binary"),
    }
    synthetic = spark.readStream.format("rate-micro-batch").options(rowsPerBatch=1, numPartitions=1).load()
    records = synthetic.select(*(values[name].alias(name) for name in RECORD.names))
    partitions = session.topics.ends(topic)
    firsts, ends = session.topics.offsets(partitions, EARLIEST), session.topics.offsets(partitions, stable=True)
    last = {partition: max(firsts[topic, partition], end - 1) for (_, partition), end in ends.items()}
    subscription = {"subscribe": topic, "startingOffsets": json.dumps({topic: last}), **_SHORT_POLL}
    read = read_records(spark, settings, subscription).where(F.rand() < 0)
    return records.unionByName(read).coalesce(1)
