"""What a user of Spark would write in place of `enforce`: flatMapGroupsWithState in Java (`java/TokenBuckets.java`)."""

from functools import partial
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from jobs.enforce.query import start_enforce
from jobs.query_names import ENFORCE
from jobs.spark.kafka_source import read_requests
from jobs.storage.files import DeploymentSession
from quota.kafka.quotas.writer import write_record
from quota.kafka.topics.preparation import prepare_topics
from quota.records.entity import QuotaEntity
from quota.records.quota_log import QuotaRecord
from tests.evidence.bench.performance.figure import SideError
from tests.evidence.bench.performance.ground import PLENTY, Ground, decide_waiting, write
from tests.support.deployment import undisturbed_of
from tests.support.factories import PERMISSIVE, STRICT, request_json
from tests.support.topics import consume, produce

JAVA = "flatMapGroupsWithState in Java"

_USERS, _REQUESTS, _TURNS = 3, 12, 2
_RATE, _BURST = 2.0, 20.0
"""A quota that rejects some topics of so many requests of each user at once."""


def start_java(
    run: DeploymentSession, *, once: bool = False, rate: float = PLENTY, burst: float = PLENTY
) -> StreamingQuery:
    """Start the query, with one quota for each user, and otherwise with the settings of `enforce`."""
    spark, settings = run.spark, run.settings
    spark.sparkContext.setLocalProperty("spark.scheduler.pool", ENFORCE)
    jvm: Any = spark._jvm  # noqa: SLF001 PySpark has no other way to Java
    records = read_requests(spark, settings).coalesce(1)
    decisions = DataFrame(jvm.bench.TokenBuckets.decided(records._jdf, rate, burst), spark)  # noqa: SLF001
    return write(decisions.withColumn("topic", F.lit(settings.topics.decisions)), settings, "java", once=once)


def check_admissions(ground: Ground) -> None:
    """Check that both queries admit the same topics, in a batch and in a later one.

    Raises:
        SideError: They do not.
    """
    ours = ground.deployment("admissions")
    write_record(ours, QuotaRecord(QuotaEntity(None), _RATE, _BURST))
    java = undisturbed_of(ours)
    prepare_topics(java)
    sides = ((ours, start_enforce), (java, partial(start_java, rate=_RATE, burst=_BURST)))
    for turn in range(_TURNS):
        for user in range(_USERS):
            values = [_request(user, turn * _REQUESTS + number) for number in range(_REQUESTS)]
            partition = user % ours.topics.partitions
            produce(ours, ours.topics.requests, *values, key=b"user-%d" % user, partition=partition)
        for side, start in sides:
            decide_waiting(DeploymentSession.on(ground.spark, side), start)
    count = _TURNS * _USERS * _REQUESTS
    expected, actual = (
        {
            (decision["request_id"], *(topic["error_code"] for topic in decision["topics"]))
            for _, decision in consume(side, side.topics.decisions, count)
        }
        for side, _ in sides
    )
    if different := expected ^ actual:
        raise SideError(f"{JAVA} admits other topics than enforce: {sorted(different)}")


def _request(user: int, number: int) -> bytes:
    version = STRICT if number % 5 else PERMISSIVE
    return request_json(1 + number % 4, 2, user=f"user-{user}", request_id=f"r-{user}-{number}", api_version=version)
