"""Counting what candidates come to, in Spark."""

from collections.abc import Iterable, Sequence

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F

from jobs.backtest import AS_RECORDED
from quota.backtest_result import Difference, Load, Outcome, Repetition, Result, Sender

_SUMS = ("requests", "refused_requests", "admitted", "refused", "throttled_ms", "newly_admitted", "newly_refused")
_EXAMPLES = 5


def result_of(effects: DataFrame, got: str, names: Sequence[str], repeating: int | None) -> Result | None:
    """Count `jobs.backtest.EFFECTS`.

    Args:
        effects: a row a request and candidate.
        got: what is called that the requests got.
        names: of the candidates.
        repeating: the candidate that is to give what was recorded, if one is.

    Returns:
        None where there are no decisions.
    """
    example = F.min(F.when(F.col("decision_id").isNotNull(), F.struct("decision_id", "differing"))).alias("example")
    differing = F.count("decision_id").alias("differing_requests")
    sender = ["candidate", "user", "client_id"]
    by_second = effects.groupBy(*sender, "second").agg(*_sums(), differing, example).persist()
    try:
        peak = F.max("admitted").alias("peak")
        more = F.sum("differing_requests").alias("differing_requests"), F.min("example").alias("example")
        of_senders = by_second.groupBy(*sender).agg(*_sums(), peak, *more).collect()
        of_all = (
            by_second.groupBy("candidate", "second").agg(*_sums()).groupBy("candidate").agg(*_sums(), peak).collect()
        )
    finally:
        by_second.unpersist()
    loads = {row["candidate"]: _load(row) for row in of_all}
    if not loads:
        return None
    known = [(AS_RECORDED, got), *enumerate(names)]
    senders = {number: _senders(row for row in of_senders if row["candidate"] == number) for number, _ in known}
    outcomes = [Outcome(name, loads[number], senders[number]) for number, name in known]
    repeated = [row for row in of_senders if row["candidate"] == repeating]
    return Result(None if repeating is None else _repetition(repeated), outcomes)


def _sums() -> list[Column]:
    return [F.sum(name).alias(name) for name in _SUMS]


def _load(row: Row) -> Load:
    sums = {name: row[name] for name in _SUMS if name != "throttled_ms"}
    return Load(**sums, throttled_seconds=row["throttled_ms"] / 1000, peak=row["peak"])


def _senders(rows: Iterable[Row]) -> list[Sender]:
    senders = [Sender(row["user"], row["client_id"], _load(row)) for row in rows]
    return sorted(senders, key=lambda each: (-each.load.admitted - each.load.refused, each.user, each.client_id))


def _repetition(rows: Sequence[Row]) -> Repetition:
    examples = sorted(
        (row["example"]["decision_id"], list(row["example"]["differing"])) for row in rows if row["example"]
    )
    decisions, differing = (sum(row[name] for row in rows) for name in ("requests", "differing_requests"))
    return Repetition(decisions, differing, [Difference(*each) for each in examples[:_EXAMPLES]])
