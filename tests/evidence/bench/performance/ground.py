"""What all measurements use: a broker, a Spark session with the compiled Java, deployments, and their queries."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

import pyspark
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from jobs.enforce.query import sink_options
from jobs.sandbox.broker import embedded_broker, with_plaintext_cluster
from jobs.spark import kafka_source
from jobs.spark.kafka_source import read_records
from jobs.spark.properties import PARTITIONS
from jobs.spark.queries import trigger
from jobs.spark.session import spark_session
from jobs.storage.files import DeploymentSession
from quota.kafka.quotas.writer import write_record
from quota.kafka.topics.preparation import prepare_topics
from quota.records.entity import QuotaEntity
from quota.records.quota_log import QuotaRecord
from quota.settings import Settings, load_settings
from tests.evidence.command import Notify
from tests.support.deployment import make_deployment
from tests.support.java_source import compile_java

PLENTY = 1e6
"""A rate at which all requests are admitted, mutations/s."""

FIRST_FETCH_WAIT = {"kafka.fetch.max.wait.ms": "10"}
"""The wait of the limits for a fetch: that of the first comparison, so that what shortens both sides is seen."""
FIRST_PARTITIONS = 2
"""The number of partitions of the limits' state, as at the first comparison."""

_JAVA = Path(__file__).parent / "java"
_numbers = count(1)


@dataclass
class Ground:
    """A broker and a session; each deployment has its own topics and folder."""

    spark: SparkSession
    settings: Settings
    folder: Path
    notify: Notify
    """Takes a line of progress."""

    def deployment(self, name: str) -> Settings:
        """Return a `new_deployment`; a name may be used several times."""
        return new_deployment(self.settings, f"{name}-{next(_numbers)}", self.folder)


def new_deployment(settings: Settings, name: str, folder: Path) -> Settings:
    """Return a new deployment in its own folder in `folder`, with a quota of `PLENTY` for everyone."""
    made = make_deployment(settings, name, folder / name)
    prepare_topics(made)
    write_record(made, QuotaRecord(QuotaEntity(None), PLENTY))
    return made


working_folder = partial(TemporaryDirectory, prefix="mutation-quota-")


@contextmanager
def broker() -> Iterator[str]:
    """Run a broker inside the block, and provide its address."""
    with working_folder() as folder:
        settings = load_settings([f"storage.root={folder}"], environment={})
        with embedded_broker(settings, port=0, java_options=["-Xmx512m"]) as started:
            yield started.address


@contextmanager
def ground(address: str, notify: Notify, *given: str) -> Iterator[Ground]:
    """Provide a session and a folder; `given` are settings."""
    with working_folder() as folder:
        classes = Path(folder, "classes")
        compile_java(_JAVA.glob("*.java"), f"{Path(pyspark.__file__).parent}/jars/*", classes)
        own = [f"storage.root={folder}", f"spark.conf.spark.driver.extraClassPath={classes}"]
        settings = with_plaintext_cluster(load_settings([*own, *given], environment={}), address)
        with spark_session(settings, "bench", Path(folder, "spark.log")) as spark:
            yield Ground(spark, settings, Path(folder), notify)


def start_pass_through(run: DeploymentSession, *, once: bool = False, tuned: bool = False) -> StreamingQuery:
    """Start the limit: a query that copies the same records from Kafka to Kafka, without state or Python.

    It waits for fetches as at the first comparison, or as `enforce` does (`tuned`).
    """
    spark, settings = run.spark, run.settings
    spark.sparkContext.setLocalProperty("spark.scheduler.pool", "enforce")
    topic = F.lit(settings.topics.decisions).alias("topic")
    plain = {
        "subscribe": settings.topics.requests,
        "maxOffsetsPerTrigger": str(kafka_source.MAX_REQUESTS_PER_BATCH),
        "kafka.max.poll.records": "65536",  # the memory of this query needs no bound
    }
    records = read_records(spark, settings, plain | ({} if tuned else FIRST_FETCH_WAIT))
    return write(records.select(topic, "key", "value"), settings, "pass-through", once=once)


@contextmanager
def shuffling(spark: SparkSession, partitions: int) -> Iterator[None]:
    """Give queries that are started inside the block this number of partitions."""
    usual = spark.conf.get(PARTITIONS)
    spark.conf.set(PARTITIONS, partitions)
    try:
        yield
    finally:
        spark.conf.set(PARTITIONS, usual)


def decide_waiting(run: DeploymentSession, start: Callable[..., StreamingQuery]) -> None:
    """Have a query process the requests that are waiting: its store then has the state of their keys."""
    query = start(run, once=True)
    query.awaitTermination()
    if query.exception():
        raise query.exception()


def write(answers: DataFrame, settings: Settings, name: str, *, once: bool) -> StreamingQuery:
    """Start a query that writes to Kafka as `enforce` does."""
    return (
        answers.writeStream.queryName(name)
        .format("kafka")
        .options(**sink_options(settings))
        .option("checkpointLocation", f"{settings.storage.root}/checkpoints/{name}")
        .trigger(**trigger(settings.enforce.trigger_seconds, once=once))
        .start()
    )
