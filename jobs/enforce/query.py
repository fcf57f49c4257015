"""The query that decides: requests in from Kafka, decisions and dead letters out to Kafka."""

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from jobs.enforce.decide import EnforceConfig, decide_requests
from jobs.enforce.resolve import QuotaSource, resolve_requests
from jobs.spark.kafka_source import kafka_options, read_requests
from jobs.spark.queries import query_errors, trigger
from jobs.storage.checkpoint import check_checkpoint
from jobs.storage.deployment import Deployment
from jobs.storage.files import Files
from jobs.storage.retention import check_gaps
from quota.kafka.quota_log import KafkaQuotas
from quota.kafka.topics.specs import max_answer_bytes
from quota.settings.model import Settings
from quota.settings.storage import checkpoint_path
from schemas.buckets import STATE_VERSION

NAME = "enforce"

_PRODUCER_BYTES = 16 * 1024 * 1024


@query_errors(NAME)
def start_enforce(spark: SparkSession, settings: Settings, *, once: bool = False) -> StreamingQuery:
    """Start the query on topics that are prepared (`quota.kafka.topics.specs`).

    Raises:
        MutationQuotaError: it cannot go on with the checkpoint that is there, or with none.
    """
    files = Files(spark, settings)
    checkpoint = check_checkpoint(files, NAME, STATE_VERSION)
    checkpoint.forget_topics(files, Deployment.read(files).retired)
    check_gaps(settings, NAME, checkpoint.positions(files), fail=settings.enforce.fail_on_data_loss)
    spark.sparkContext.setLocalProperty("spark.scheduler.pool", NAME)
    records = read_requests(spark, settings)
    quotas = KafkaQuotas.of(settings, settings.enforce.quota_timeout_seconds)
    answers = enforce(records, quotas, enforce_config(settings))
    return (
        answers.writeStream.queryName(NAME)
        .format("kafka")
        .options(**sink_options(settings))
        .option("checkpointLocation", checkpoint_path(settings, NAME, STATE_VERSION))
        .outputMode("append")
        .trigger(**trigger(settings.enforce.trigger_seconds, once=once))
        .start()
    )


def sink_options(settings: Settings) -> dict[str, str]:
    """How answers are written to Kafka."""
    largest = max_answer_bytes(settings)
    own = {
        "max.request.size": largest,
        "buffer.memory": _PRODUCER_BYTES + 2 * largest,
        "acks": "all",
        "compression.type": settings.enforce.compression,
    }
    return kafka_options(settings) | {f"kafka.{name}": str(value) for name, value in own.items()}


def enforce(records: DataFrame, source: QuotaSource, answering: EnforceConfig) -> DataFrame:
    """From records of the request topic (`schemas.kafka.RECORD`) to answers (`schemas.kafka.ANSWER`)."""
    resolved = resolve_requests(records, source, answering.policy)
    return decide_requests(resolved, answering)


def enforce_config(settings: Settings) -> EnforceConfig:
    """How the settings have requests answered."""
    return EnforceConfig(
        window=settings.quota.window,
        policy=settings.policy,
        decisions_topic=settings.topics.decisions,
        dead_letters_topic=settings.topics.dead_letters,
    )
