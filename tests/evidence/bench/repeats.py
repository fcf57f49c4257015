"""The cost of deduplication, compared with charging each request, alternating in one run: `make bench-repeats`."""

import itertools
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from pyspark.sql import SparkSession

from jobs.enforce.decide import EnforceConfig
from jobs.enforce.query import enforce
from jobs.enforce.state import encode_bucket
from jobs.spark.session import start_session, stop_session
from quota.admission.decide import decide
from quota.admission.policy import Policy
from quota.algorithms.deduplication import NO_DEDUPLICATION, Deduplication
from quota.algorithms.token_bucket import Bucket, TokenBucket
from quota.records.entity import QuotaEntity
from quota.records.fields import BEGINNING
from quota.records.quota import Quota, Window
from quota.settings import load_settings
from quota.timeline.change import QuotaChange
from quota.timeline.timeline import QuotaTimeline
from schemas.kafka import RECORD
from tests.support.factories import FixedQuotas, request_json, resolved
from tests.support.rows import frame, kafka_rows

REMEMBERED = (0, 10, 100, 1000)
"""Requests that a bucket remembers; 0 is without deduplication."""

ROUNDS = 7
REQUESTS = 1000
USERS = 200
BATCHES = 4


def main() -> None:
    """Print a table of figures by the number of requests that a bucket remembers."""
    print(f"| | off | {' | '.join(f'{count} remembered' for count in REMEMBERED[1:])} |")
    print("|---" * (len(REMEMBERED) + 1) + "|")
    filled = {count: bucket(count) for count in REMEMBERED}
    rounds: dict[int, list[float]] = {count: [] for count in REMEMBERED}
    for _, count in itertools.product(range(ROUNDS), REMEMBERED):
        rounds[count].append(decide_us(filled[count], rule_of(count)))
    show("one decision, µs", [statistics.median(rounds[count]) for count in REMEMBERED])
    show(
        "bytes of remembered requests in a bucket's state",
        [len(encode_bucket(filled[count])[-1] or b"") for count in REMEMBERED],
    )
    with tempfile.TemporaryDirectory() as folder:
        batches(Path(folder))


def rule_of(count: int) -> Deduplication:
    """Return the rule by which a bucket remembers at most `count` requests."""
    return Deduplication(window_ms=3_600_000, max_requests=count) if count else NO_DEDUPLICATION


def bucket(count: int) -> Bucket | None:
    """Return a bucket that remembers `count` requests."""
    requests = [resolved(1, rate=1e6, request_id=f"held-{each}") for each in range(count)]
    return decide(Bucket(1e6, 0, Quota(1e6)), requests, TokenBucket(Window(), rule_of(count)))[0]


def decide_us(filled: Bucket | None, rule: Deduplication) -> float:
    """Return the µs of a request; all requests are charged, and remembered by the rule."""
    requests = [resolved(1, rate=1e6, request_id=f"new-{each}", offset=each) for each in range(REQUESTS)]
    started = time.perf_counter()
    decide(filled, requests, TokenBucket(Window(), rule))
    return (time.perf_counter() - started) / REQUESTS * 1e6


def batches(folder: Path) -> None:
    """Time the enforcing query over files, in batches with one request of each user."""
    settings = load_settings([f"storage.root={folder}", "spark.master=local[2]"], environment={})
    spark = start_session(settings, "bench repeats", folder / "spark.log")
    try:
        times: dict[int, list[float]] = {count: [] for count in REMEMBERED}
        sizes: dict[int, float] = {}
        run(spark, folder / "warm", max(REMEMBERED))  # warms up
        for turn, count in itertools.product(range(ROUNDS), REMEMBERED):
            measured, sizes[count] = run(spark, folder / f"{turn}-{count}", count)
            times[count] += measured
        show(f"a batch of {USERS} buckets, ms", [statistics.median(times[count]) for count in REMEMBERED])
        show(
            f"state of the {USERS} buckets on disk after {BATCHES + 1} batches, MB",
            [sizes[count] for count in REMEMBERED],
        )
    finally:
        stop_session(spark)


def run(spark: SparkSession, folder: Path, count: int) -> tuple[list[float], float]:
    """Return the time of each batch after the first two, ms, and the size of the state store, MB."""
    for number, values in enumerate(requests(count)):
        frame(spark, kafka_rows(values)).coalesce(1).write.parquet(str(folder / "in" / f"part-{number}"))
    records = spark.readStream.schema(RECORD).option("maxFilesPerTrigger", 1).parquet(str(folder / "in" / "*"))
    config = EnforceConfig(Window(), Policy(deduplication=rule_of(count)), "decisions", "dead-letters")
    query = (
        enforce(records, FixedQuotas(quotas()), config)
        .writeStream.format("noop")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    progress = query.recentProgress
    stored = sum(each.stat().st_size for each in (folder / "checkpoint" / "state").rglob("*") if each.is_file())
    return [each["durationMs"]["addBatch"] for each in progress[2:]], stored / 1e6


def requests(count: int) -> Iterator[list[bytes]]:
    """Yield a batch that fills the buckets, and some with one request of each user."""
    yield [request(user, f"held-{each}") for user in range(USERS) for each in range(max(count, 1))]
    for batch in range(BATCHES):
        yield [request(user, f"new-{batch}") for user in range(USERS)]


def request(user: int, request_id: str) -> bytes:
    """Return a request for one partition."""
    return request_json(1, user=f"user{user}", request_id=request_id)


def quotas() -> QuotaTimeline:
    """Return quotas far above the requests."""
    timeline = QuotaTimeline()
    timeline.add(QuotaChange(QuotaEntity(None), Quota(1e6), BEGINNING))
    return timeline


def show(what: str, figures: list[float]) -> None:
    """Print one row."""
    print(f"| {what} | {' | '.join(f'{each:,.1f}' for each in figures)} |", flush=True)


if __name__ == "__main__":
    main()
