"""The audit: rows into Delta, commits and files, and an analyst's queries of millions of rows."""

import time
from collections.abc import Iterator
from itertools import product
from unittest import mock

from deltalake import DeltaTable
from pyspark.sql import Column
from pyspark.sql import functions as F

from jobs.audit.query import start_audit
from jobs.audit.tables.specs import DECISIONS
from jobs.enforce.query import start_enforce
from jobs.storage.run import Run
from quota.settings import Settings
from tests.evidence.bench.performance.backlog import fill
from tests.evidence.bench.performance.figure import Figure, Goal
from tests.evidence.bench.performance.ground import Ground, batches, elsewhere, rate_of, with_batches
from tests.evidence.bench.performance.size import Size

USERS = 1000
BACKLOG_GOAL = Goal(1, at_least=True)

DAYS = 10
FIRST_DAY = 1_790_000_000
PER_DAY = 86_400

QUERIES = {
    "mutations admitted and rejected, by hour, on one day": """
        SELECT date_trunc('hour', timestamp) AS hour,
               sum(aggregate(topics, 0, (n, topic) -> n + IF(topic.error_code = 0, topic.partitions, 0))) AS admitted,
               sum(aggregate(topics, 0, (n, topic) -> n + IF(topic.error_code = 0, 0, topic.partitions))) AS rejected
        FROM decisions WHERE date = '{day}' GROUP BY hour ORDER BY hour""",
    "the ten most throttled users, on all days": """
        SELECT user, count(*) AS times, sum(throttle_time_ms) / 1000 AS seconds
        FROM decisions WHERE throttle_time_ms > 0 GROUP BY user ORDER BY seconds DESC LIMIT 10""",
    "all decisions of a user, on one day": "SELECT * FROM decisions WHERE date = '{day}' AND user = 'user-7'",
    "one decision by its id and day": "SELECT * FROM decisions WHERE date = '{day}' AND decision_id = '{id}'",
}
"""SQL by the question that it answers."""


def audit(ground: Ground, size: Size) -> list[Figure]:
    """Measure the audit of a backlog of decisions, and queries of a large table."""
    return [*_drained(ground, size), *_queried(ground, size.rows, size.rounds)]


def _drained(ground: Ground, size: Size) -> Iterator[Figure]:
    """Enforce and audit in turn; the audited deployment has decided its requests before, and decides no more."""
    batch = size.decided // size.batches
    waiting, decided = (with_batches(ground.deployment(name), batch) for name in ("waiting", "decided"))
    for settings in (waiting, decided):
        fill(settings, size.decided, USERS)
    start_enforce(Run.on(ground.spark, decided), once=True).awaitTermination()
    rates: dict[str, list[float]] = {"enforce": [], "audit": []}
    for turn in range(0 if size.warm else 1, size.rounds + 1):
        audited = elsewhere(decided, ground)
        sides = {"enforce": (start_enforce, elsewhere(waiting, ground)), "audit": (start_audit, audited)}
        for side, (start, settings) in sides.items():
            with mock.patch("jobs.audit.query._MAX_RECORDS", batch):
                query = start(Run.on(ground.spark, settings), once=True)
            query.awaitTermination()
            if turn:  # the first round warms up
                rates[side].append(rate_of(batches(query)[1:]))
                ground.notify(f"audit: round {turn}, {side}: {rates[side][-1]:,.0f}/s")
    runs, limit = (tuple(rates[side]) for side in ("audit", "enforce"))
    yield Figure("audit", "decisions into Delta, of a backlog", "rows/s", runs, "enforcing it", limit, BACKLOG_GOAL)
    yield Figure("audit", "batches at the default trigger", "1/min", (60 / waiting.audit.trigger_seconds,))
    added = DeltaTable(audited.storage.table(DECISIONS.name)).history()
    files = [float(commit["operationMetrics"]["num_added_files"]) for commit in added if commit["operation"] == "WRITE"]
    yield Figure("audit", "files per batch", "files", tuple(files))


def _queried(ground: Ground, rows: int, rounds: int) -> Iterator[Figure]:
    settings = ground.deployment("queries")
    began = time.monotonic()
    _make(ground, settings, rows)
    ground.notify(f"audit: a table of {rows:,} rows made in {time.monotonic() - began:.0f} s")
    spark = ground.spark.newSession()  # an analyst's session: the job's settings are for small batches
    spark.conf.set("spark.sql.codegen.wholeStage", "true")
    spark.read.format("delta").load(settings.storage.table(DECISIONS.name)).createOrReplaceTempView("decisions")
    day = spark.sql("SELECT max(date) FROM decisions").collect()[0][0]
    wanted = spark.sql(f"SELECT decision_id FROM decisions WHERE date = '{day}' LIMIT 1").collect()[0][0]  # noqa: S608
    times: dict[str, list[float]] = {what: [] for what in QUERIES}
    for _, (what, query) in product(range(rounds), QUERIES.items()):
        began = time.monotonic()
        spark.sql(query.format(day=day, id=wanted)).collect()
        times[what].append(time.monotonic() - began)
    for what, taken in times.items():
        yield Figure("audit", f"{what}; {rows:,} rows", "s", tuple(taken))


def _make(ground: Ground, settings: Settings, rows: int) -> None:
    """Write a table of decisions over ten days, a tenth of them rejected."""
    number = F.col("id")
    rejected = number % 10 == 0
    columns = {field.name: F.lit(None).cast(field.dataType) for field in DECISIONS.schema}
    seconds = F.lit(FIRST_DAY) + (number * (DAYS * PER_DAY) / rows).cast("long")
    columns |= {
        "decision_id": F.concat(F.lit("mutation-requests-0-"), number.cast("string")),
        "timestamp": F.timestamp_seconds(seconds),
        "date": F.to_date(F.timestamp_seconds(seconds)),
        "user": F.concat(F.lit("user-"), (number % USERS).cast("string")),
        "outcome": F.when(rejected, "REJECTED").otherwise("ADMITTED"),
        "throttle_time_ms": F.when(rejected, (number % 5000).cast("int")).otherwise(0),
        "topics": F.array(_topic(rejected)),
        "tokens": number.cast("double") % 55,
    }
    frame = ground.spark.range(0, rows, 1, DAYS).select(*[columns[name].alias(name) for name in DECISIONS.schema.names])
    frame.write.format("delta").partitionBy("date").save(settings.storage.table(DECISIONS.name))


def _topic(rejected: Column) -> Column:
    known = {
        "name": F.concat(F.lit("topic-"), F.col("id").cast("string")),
        "partitions": (F.col("id") % 12 + 1).cast("int"),
        "error_code": F.when(rejected, 89).otherwise(0),
        "error": F.when(rejected, "THROTTLING_QUOTA_EXCEEDED").otherwise("NONE"),
    }
    fields = DECISIONS.schema["topics"].dataType.elementType
    return F.struct(*[known.get(field.name, F.lit(None).cast(field.dataType)).alias(field.name) for field in fields])
