"""`backtest`: replays recorded requests with different quotas, windows or algorithms."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import Window as SqlWindow
from pyspark.sql import functions as F

from jobs.audit.tables.specs import DECISIONS, QUOTA_CHANGES
from jobs.spark.progress import with_progress
from jobs.whatif.candidates import parse_candidates
from jobs.whatif.effects import AS_RECORDED, compute_effects
from jobs.whatif.recorded import RecordedRequests, add_recorded_changes, open_requests
from quota.callbacks.loading import check_callbacks
from quota.callbacks.timeline import CallbackTimeline
from quota.errors import MutationQuotaError
from quota.settings import Settings
from quota.whatif.evaluation import Candidate
from quota.whatif.result import CandidateOutcome, Replay, ReplayDifference, Result, Sender, Totals


def backtest(settings: Settings, candidates: Sequence[str], since: int | None, until: int | None) -> Result:
    """Replay audited requests, with the recorded quotas and with each candidate.

    Requests from `since` on and before `until` (epoch ms) count; earlier ones only charge the buckets.
    """
    check_callbacks(settings.quota.callbacks)
    recorded = CallbackTimeline(settings.quota.callbacks)
    parsed = parse_candidates(candidates, recorded, settings)
    with open_requests(settings, "backtest", (None, until), (DECISIONS, QUOTA_CHANGES)) as requests:
        add_recorded_changes(recorded, requests.decisions.sparkSession, settings)
        return evaluate_candidates(requests, parsed, since, until, replayed=0)


def evaluate_candidates(
    requests: RecordedRequests,
    candidates: Sequence[Candidate],
    since: int | None = None,
    until: int | None = None,
    replayed: int | None = None,
) -> Result:
    """Return the outcome of requests from `since` until `until` (epoch ms) as recorded, and with each candidate.

    Earlier requests only charge the buckets. `replayed` is the number of the candidate that should reproduce the
    recorded decisions; None if there is none.
    """
    effects = compute_effects(requests.decisions, candidates, since)
    names = [candidate.name for candidate in candidates]
    spark = requests.decisions.sparkSession
    result = with_progress(spark, "replaying", lambda: count_effects(effects, requests.outcome, names, replayed, until))
    if result is None:
        in_period = since is not None or requests.in_period
        raise MutationQuotaError(
            f"there are no decisions to replay: {requests.origin} has none"
            + (" in that period" if in_period else ", run mutation-quota audit first")
        )
    return result


_COUNTS = ("requests", "refused_requests", "admitted", "refused", "newly_admitted", "newly_refused")
_SENDER = ("candidate", "user", "client_id")
_MAX_EXAMPLES = 5


def count_effects(
    effects: DataFrame, recorded_outcome: str, names: Sequence[str], replayed: int | None, until: int | None = None
) -> Result | None:
    """Count effects (`jobs.whatif.effects.EFFECTS`) by candidate and sender; None if there are no decisions.

    `replayed` is the number of the candidate that should reproduce the recorded decisions. Throttle times are cut at
    `until` (epoch ms).
    """
    example = F.min(F.when(F.col("decision_id").isNotNull(), F.struct("decision_id", "differing"))).alias("example")
    differing = F.count("decision_id").alias("differing_requests")
    second = F.floor(F.col("timestamp") / 1000).alias("second")
    throttle = F.when(F.col("retry_at") > F.col("timestamp"), F.struct("timestamp", "retry_at"))
    throttles = F.collect_list(throttle).alias("throttles")
    by_second = effects.groupBy(*_SENDER, second).agg(*_sums(), differing, example, throttles).persist()
    try:
        peak = F.max("admitted").alias("peak")
        differences = F.sum("differing_requests").alias("differing_requests"), F.min("example").alias("example")
        by_sender = by_second.groupBy(*_SENDER).agg(*_sums(), peak, *differences).collect()
        by_candidate = (
            by_second.groupBy("candidate", "second").agg(*_sums()).groupBy("candidate").agg(*_sums(), peak).collect()
        )
        throttled = {row[:3]: row["throttled_ms"] for row in _throttled_ms(by_second, until).collect()}
    finally:
        by_second.unpersist()
    if not any(row["requests"] for row in by_candidate):
        return None
    numbered = [(AS_RECORDED, recorded_outcome), *enumerate(names)]
    senders = {number: [row for row in by_sender if row["candidate"] == number] for number, _ in numbered}
    totals = {
        row["candidate"]: _totals(row, (throttled.get(each[:3], 0) for each in senders[row["candidate"]]))
        for row in by_candidate
    }
    outcomes = [
        CandidateOutcome(name, totals[number], _senders(senders[number], throttled)) for number, name in numbered
    ]
    return Result(None if replayed is None else _replay(senders[replayed]), outcomes)


def _sums() -> list[Column]:
    return [F.sum(name).alias(name) for name in _COUNTS]


def _throttled_ms(by_second: DataFrame, until: int | None) -> DataFrame:
    """Return the time for which each sender was throttled; overlapping times, of several buckets, count once."""
    throttles = by_second.select(*_SENDER, F.explode("throttles").alias("throttle")).select(*_SENDER, "throttle.*")
    before = (
        SqlWindow.partitionBy(*_SENDER).orderBy("timestamp", "retry_at").rowsBetween(SqlWindow.unboundedPreceding, -1)
    )
    begin = F.greatest("timestamp", F.max("retry_at").over(before))
    end = F.col("retry_at") if until is None else F.least("retry_at", F.lit(until))
    added = throttles.select(*_SENDER, F.greatest(end - begin, F.lit(0)).alias("added"))
    return added.groupBy(*_SENDER).agg(F.sum("added").alias("throttled_ms"))


def _totals(row: Row, throttled_ms: Iterable[int]) -> Totals:
    counts = {name: row[name] for name in _COUNTS}
    return Totals(**counts, throttled_seconds=sum(throttled_ms) / 1000, peak=row["peak"])


def _senders(rows: Iterable[Row], throttled: Mapping[tuple[Any, ...], int]) -> list[Sender]:
    senders = [Sender(row["user"], row["client_id"], _totals(row, [throttled.get(row[:3], 0)])) for row in rows]
    return sorted(senders, key=lambda each: (-each.load.admitted - each.load.refused, each.user, each.client_id))


def _replay(rows: Sequence[Row]) -> Replay:
    examples = sorted(
        (row["example"]["decision_id"], list(row["example"]["differing"])) for row in rows if row["example"]
    )
    decisions, differing = (sum(row[name] for row in rows) for name in ("requests", "differing_requests"))
    return Replay(decisions, differing, [ReplayDifference(*example) for example in examples[:_MAX_EXAMPLES]])
