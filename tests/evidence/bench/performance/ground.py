"""What all figures stand on: a broker, a Spark session, deployments of their own, and the pass-through."""

import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from jobs.enforce.query import sink_options
from jobs.sandbox.broker import at, embedded_broker
from jobs.spark.kafka_source import read_records
from jobs.spark.queries import trigger
from jobs.spark.session import working_session
from quota.kafka.quota_writer import write_record
from quota.kafka.topics.specs import prepare_topics
from quota.records.entity import QuotaEntity
from quota.records.quota_log import QuotaRecord
from quota.settings.loading import load_settings
from quota.settings.model import Settings
from tests.support.deployments import deployed

PLENTY = 1e6
"""A rate at which all is admitted, mutations/s."""

_numbers = count(1)


@dataclass
class Ground:
    """A broker and a session; each deployment has topics and a folder of its own."""

    spark: SparkSession
    settings: Settings
    folder: Path
    tell: Callable[[str], None]
    """Takes a line of progress."""

    def deployment(self, name: str) -> Settings:
        """A new deployment, where everybody has plenty."""
        name = f"{name}-{next(_numbers)}"
        settings = deployed(self.settings, name, self.folder / name)
        prepare_topics(settings)
        write_record(settings, QuotaRecord(QuotaEntity(None), PLENTY))
        return settings


@contextmanager
def broker(*given: str) -> Iterator[str]:
    """A broker's address."""
    with working_folder() as folder:
        settings = load_settings([f"storage.root={folder}", "broker.memory=512m", *given], environment={})
        with embedded_broker(settings, port=0) as started:
            yield started.address


@contextmanager
def ground(address: str, tell: Callable[[str], None], *given: str) -> Iterator[Ground]:
    """A session and a folder on a broker, with settings besides the defaults."""
    with working_folder() as folder:
        settings = at(load_settings([f"storage.root={folder}", *given], environment={}), address)
        with working_session(settings, "bench", folder / "spark.log") as spark:
            yield Ground(spark, settings, folder, tell)


@contextmanager
def working_folder() -> Iterator[Path]:
    """For what is not kept."""
    with tempfile.TemporaryDirectory(prefix="mutation-quota-") as name:
        yield Path(name)


def start_pass_through(spark: SparkSession, settings: Settings, *, once: bool = False) -> StreamingQuery:
    """The limit: the same records from Kafka to Kafka, as they are, without state or Python."""
    spark.sparkContext.setLocalProperty("spark.scheduler.pool", "enforce")
    topic = F.lit(settings.topics.decisions).alias("topic")
    plain = {
        "subscribe": settings.topics.requests,
        "maxOffsetsPerTrigger": str(settings.enforce.max_requests_per_batch),
        "kafka.max.poll.records": "65536",  # it need not mind its memory
    }
    records = read_records(spark, settings, plain, fail_on_data_loss=True)
    return write(records.select(topic, "key", "value"), settings, "pass-through", once=once)


def write(answers: DataFrame, settings: Settings, name: str, *, once: bool) -> StreamingQuery:
    """To Kafka, as `enforce` does it."""
    return (
        answers.writeStream.queryName(name)
        .format("kafka")
        .options(**sink_options(settings))
        .option("checkpointLocation", f"{settings.storage.root}/checkpoints/{name}")
        .trigger(**trigger(settings.enforce.trigger_seconds, once=once))
        .start()
    )


def batches(query: StreamingQuery) -> list[tuple[int, float]]:
    """Rows and seconds of each batch so far that had any."""
    return [
        (each["numInputRows"], each["durationMs"]["triggerExecution"] / 1000)
        for each in query.recentProgress
        if each["numInputRows"]
    ]


def rate_of(counted: Sequence[tuple[int, float]]) -> float:
    """Rows a second of such batches."""
    return sum(rows for rows, _ in counted) / sum(seconds for _, seconds in counted)


def with_batches(settings: Settings, most: int) -> Settings:
    """Of so many requests at most."""
    enforce = settings.enforce.model_copy(update={"max_requests_per_batch": most})
    return settings.model_copy(update={"enforce": enforce})


def elsewhere(settings: Settings, ground: Ground) -> Settings:
    """The same topics, from where this deployment stands in them: a copy of its storage root."""
    root = Path(settings.storage.root)
    copy = tempfile.mkdtemp(dir=ground.folder)
    if root.exists():
        shutil.copytree(root, copy, dirs_exist_ok=True)
    return settings.model_copy(update={"storage": settings.storage.model_copy(update={"root": copy})})
