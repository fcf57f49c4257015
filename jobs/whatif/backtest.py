"""`backtest`: replays recorded requests with different quotas, windows or algorithms."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import Window as SqlWindow
from pyspark.sql import functions as F

from jobs.audit.tables.specs import DECISIONS, QUOTA_CHANGES
from jobs.spark.progress import with_progress
from jobs.whatif.effects import AS_RECORDED, Candidate, compute_effects
from jobs.whatif.recorded import RecordedRequests, add_recorded_changes, open_requests
from jobs.whatif.simulate import read_quotas_of_file
from quota.callbacks.loading import check_callbacks
from quota.callbacks.timeline import CallbackTimeline
from quota.errors import BadInput, MutationQuotaError
from quota.records.quota import Window
from quota.settings import Settings
from quota.whatif.rates import AlgorithmName, make_algorithm
from quota.whatif.result import CandidateOutcome, Replay, ReplayDifference, Result, Sender, Totals


def backtest(
    settings: Settings, candidates: Sequence[str], since: int | None, until: int | None, file: str | None = None
) -> Result:
    """Replay audited requests, with the recorded quotas and with each candidate; or the requests of a file.

    Requests from `since` on and before `until` (epoch ms) count; earlier ones only charge the buckets.
    """
    check_callbacks(settings.quota.callbacks)
    recorded = CallbackTimeline(settings.quota.callbacks) if file is None else None
    parsed = parse_candidates(candidates, recorded, settings)
    with open_requests(settings, "backtest", (None, until), file, (DECISIONS, QUOTA_CHANGES)) as requests:
        if recorded is not None:
            add_recorded_changes(recorded, requests.decisions.sparkSession, settings)
        return evaluate_candidates(requests, parsed, since, until, replayed=None if recorded is None else 0)


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


_RECORDED_QUOTAS = "recorded quotas"

_NUMBERS = ("window-num", "window-size-seconds")
_KEYS = ("name", "quotas", *_NUMBERS, "algorithm")


def parse_candidates(texts: Sequence[str], recorded: CallbackTimeline | None, settings: Settings) -> list[Candidate]:
    """Parse candidates; the recorded quotas, which are the first one, are None for a file of requests."""
    candidates = [_parse_candidate(text, recorded, settings) for text in texts]
    names = [_RECORDED_QUOTAS, *(candidate.name for candidate in candidates)]
    for name in names:
        if names.count(name) > 1:
            raise BadInput(f"--candidate: two candidates are called {name!r}; give one of them another name=")
    if recorded is None:
        return candidates
    algorithm = make_algorithm(AlgorithmName.TOKEN_BUCKET, settings.quota.window, settings.policy.deduplication)
    return [Candidate(_RECORDED_QUOTAS, recorded, algorithm, settings.policy, enforces_shadow=False), *candidates]


def _parse_candidate(text: str, recorded: CallbackTimeline | None, settings: Settings) -> Candidate:
    values = _parse_pairs(text)
    window = settings.quota.window
    num, seconds = (_parse_number(text, key, values.get(key)) for key in _NUMBERS)
    window = Window(num or window.num, seconds or window.size_seconds)
    name = _parse_algorithm(text, values.get("algorithm", AlgorithmName.TOKEN_BUCKET.value))
    quotas = read_quotas_of_file(Path(values["quotas"]), settings.quota.callbacks) if "quotas" in values else recorded
    if quotas is None:
        raise BadInput(f"--candidate {text}: a file of requests needs quotas; add quotas=FILE")
    algorithm = make_algorithm(name, window, settings.policy.deduplication)
    return Candidate(values.get("name", text), quotas, algorithm, settings.policy)


def _parse_pairs(text: str) -> dict[str, str]:
    values: dict[str, str] = {}
    for part in text.split(","):
        key, equals, value = part.partition("=")
        if not (equals and value) or key not in _KEYS or key in values:
            raise BadInput(f"--candidate {text}: expected KEY=VALUE,... with each of {', '.join(_KEYS)} at most once")
        values[key] = value
    return values


def _parse_number(text: str, key: str, value: str | None) -> int | None:
    if value is None:
        return None
    if not (value.isascii() and value.isdigit() and int(value)):
        raise BadInput(f"--candidate {text}: {key}: expected a whole number above 0")
    return int(value)


def _parse_algorithm(text: str, value: str) -> AlgorithmName:
    try:
        return AlgorithmName(value)
    except ValueError:
        names = ", ".join(each.value for each in AlgorithmName)
        raise BadInput(f"--candidate {text}: algorithm: expected one of {names}") from None


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
