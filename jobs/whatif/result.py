"""Counting what candidates come to, in Spark."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pyspark.sql import Column, DataFrame, Row, Window
from pyspark.sql import functions as F

from jobs.whatif.effects import AS_RECORDED
from quota.whatif.result import CandidateOutcome, Difference, Repetition, Result, Sender, Totals

_SUMS = ("requests", "refused_requests", "admitted", "refused", "newly_admitted", "newly_refused")
_SENDER = ("candidate", "user", "client_id")
_EXAMPLES = 5


def count_effects(
    effects: DataFrame, got: str, names: Sequence[str], repeating: int | None, until: int | None = None
) -> Result | None:
    """Count `jobs.whatif.effects.EFFECTS`.

    Args:
        effects: a row a request and candidate.
        got: what is called that the requests got.
        names: of the candidates.
        repeating: the candidate that is to give what was recorded, if one is.
        until: when waits cease to count, epoch ms.

    Returns:
        None where there are no decisions.
    """
    example = F.min(F.when(F.col("decision_id").isNotNull(), F.struct("decision_id", "differing"))).alias("example")
    differing = F.count("decision_id").alias("differing_requests")
    second = F.floor(F.col("timestamp") / 1000).alias("second")
    wait = F.when(F.col("retry_at") > F.col("timestamp"), F.struct("timestamp", "retry_at"))
    waits = F.collect_list(wait).alias("waits")
    by_second = effects.groupBy(*_SENDER, second).agg(*_sums(), differing, example, waits).persist()
    try:
        peak = F.max("admitted").alias("peak")
        more = F.sum("differing_requests").alias("differing_requests"), F.min("example").alias("example")
        of_senders = by_second.groupBy(*_SENDER).agg(*_sums(), peak, *more).collect()
        of_all = (
            by_second.groupBy("candidate", "second").agg(*_sums()).groupBy("candidate").agg(*_sums(), peak).collect()
        )
        waited = {row[:3]: row["waited"] for row in _waited(by_second, until).collect()}
    finally:
        by_second.unpersist()
    if not any(row["requests"] for row in of_all):
        return None
    known = [(AS_RECORDED, got), *enumerate(names)]
    of_candidates = {number: [row for row in of_senders if row["candidate"] == number] for number, _ in known}
    loads = {
        row["candidate"]: _load(row, (waited.get(each[:3], 0) for each in of_candidates[row["candidate"]]))
        for row in of_all
    }
    outcomes = [
        CandidateOutcome(name, loads[number], _senders(of_candidates[number], waited)) for number, name in known
    ]
    return Result(None if repeating is None else _repetition(of_candidates[repeating]), outcomes)


def _sums() -> list[Column]:
    return [F.sum(name).alias(name) for name in _SUMS]


def _waited(by_second: DataFrame, until: int | None) -> DataFrame:
    """How long senders had been told to wait, ms: they may use several buckets, and two waits at once count once."""
    told = by_second.select(*_SENDER, F.explode("waits").alias("wait")).select(*_SENDER, "wait.*")
    before = Window.partitionBy(*_SENDER).orderBy("timestamp", "retry_at").rowsBetween(Window.unboundedPreceding, -1)
    begin = F.greatest("timestamp", F.max("retry_at").over(before))
    end = F.col("retry_at") if until is None else F.least("retry_at", F.lit(until))
    waits = told.select(*_SENDER, F.greatest(end - begin, F.lit(0)).alias("wait"))
    return waits.groupBy(*_SENDER).agg(F.sum("wait").alias("waited"))


def _load(row: Row, waited_ms: Iterable[int]) -> Totals:
    return Totals(**{name: row[name] for name in _SUMS}, throttled_seconds=sum(waited_ms) / 1000, peak=row["peak"])


def _senders(rows: Iterable[Row], waited: Mapping[tuple[Any, ...], int]) -> list[Sender]:
    senders = [Sender(row["user"], row["client_id"], _load(row, [waited.get(row[:3], 0)])) for row in rows]
    return sorted(senders, key=lambda each: (-each.load.admitted - each.load.refused, each.user, each.client_id))


def _repetition(rows: Sequence[Row]) -> Repetition:
    examples = sorted(
        (row["example"]["decision_id"], list(row["example"]["differing"])) for row in rows if row["example"]
    )
    decisions, differing = (sum(row[name] for row in rows) for name in ("requests", "differing_requests"))
    return Repetition(decisions, differing, [Difference(*each) for each in examples[:_EXAMPLES]])
