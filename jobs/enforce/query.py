"""The enforcing query: reads requests from Kafka, and writes decisions and dead letters to Kafka."""

from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from jobs.enforce.stages import EnforceConfig, decide_requests, resolve_requests
from jobs.log_lines import QUERY_PROPERTY
from jobs.query_names import ENFORCE
from jobs.spark.failures import query_errors
from jobs.spark.kafka_source import kafka_options, read_requests
from jobs.spark.properties import PARTITIONS
from jobs.spark.queries import trigger
from jobs.storage.files import DeploymentSession
from jobs.storage.resumption import check_gaps, resume_checkpoint
from quota.admission.policy import Policy
from quota.kafka.quotas.log import KafkaQuotas
from quota.kafka.topics.specs import MAX_ANSWER_BYTES
from quota.settings import Settings
from schemas.buckets import STATE_VERSION

_PRODUCER_BYTES = 16 * 1024 * 1024
_QUOTA_TIMEOUT_SECONDS = 60.0
"""The time that the quota topic may be unreachable before the query fails [s]."""
_COMPRESSION = {"kafka.compression.type": "zstd"}
"""The compression of answers, unless `[kafka.java]` has another, for a cluster or a reader that lacks the codec."""


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
