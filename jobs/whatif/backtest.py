"""`backtest`: replays recorded requests with different quotas, windows or algorithms."""

from collections.abc import Mapping, Sequence

from jobs.whatif.candidates import parse_candidates
from jobs.whatif.effects import AS_RECORDED, compute_effects
from jobs.whatif.engine import Engine
from jobs.whatif.recorded import add_recorded_changes, open_requests
from quota.callbacks.loading import check_callbacks
from quota.callbacks.timeline import CallbackTimeline
from quota.records.fields import MAX_EPOCH_MS
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
    add_recorded_changes(recorded, settings)
    with open_requests(settings, "backtest", (since, until), with_earlier=True) as engine:
        return evaluate_candidates(engine, parsed, since, until, replayed=0)


_COUNTS = """
SELECT candidate, sent_by, sent_as, sum(requests), sum(rejected_requests), sum(admitted), sum(rejected),
       sum(newly_admitted), sum(newly_rejected), max(admitted)
FROM (
  SELECT rows.candidate AS candidate, rows.user AS sent_by, rows.client_id AS sent_as,
         sum(rows.requests) AS requests, sum(rows.rejected_requests) AS rejected_requests,
         sum(rows.admitted) AS admitted, sum(rows.rejected) AS rejected,
         sum(rows.newly_admitted) AS newly_admitted, sum(rows.newly_rejected) AS newly_rejected
  FROM effects AS rows
  GROUP BY GROUPING SETS (
    (rows.candidate, rows.user, rows.client_id, floor(rows.timestamp / 1000)),
    (rows.candidate, floor(rows.timestamp / 1000))
  )
)
GROUP BY candidate, sent_by, sent_as
"""
"""The counts of each candidate by sender, with the most admitted in a second; a null sender stands for all."""

_THROTTLED = """
SELECT candidate, sent_by, sent_as, sum(greatest(until - greatest(since, coalesce(earlier, since)), 0))
FROM (
  SELECT rows.candidate AS candidate, rows.user AS sent_by, rows.client_id AS sent_as, rows.timestamp AS since,
         least(rows.retry_at, {until}) AS until,
         max(rows.retry_at) OVER (
           PARTITION BY rows.candidate, rows.user, rows.client_id ORDER BY rows.timestamp, rows.retry_at
           ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
         ) AS earlier
  FROM effects AS rows WHERE rows.retry_at > rows.timestamp
)
GROUP BY GROUPING SETS ((candidate, sent_by, sent_as), (candidate))
"""
"""The time for which each sender was throttled [ms]; overlapping times, of several buckets, count once."""

_DIFFERENCES = """
SELECT min(rows.decision_id), min_by(rows.differing, rows.decision_id), count(*)
FROM effects AS rows WHERE rows.candidate = {candidate} AND rows.decision_id IS NOT NULL
GROUP BY rows.user, rows.client_id ORDER BY 1
"""
"""For each sender the first decision that differs from the recorded one, and the number of them."""

_MAX_EXAMPLES = 5


def evaluate_candidates(
    engine: Engine,
    candidates: Sequence[Candidate],
    since: int | None = None,
    until: int | None = None,
    replayed: int | None = None,
) -> Result:
    """Return the outcome of the engine's requests as recorded, and with each candidate.

    Requests before `since` only charge the buckets, and throttle times are cut at `until` (epoch ms); at least one
    request counts. `replayed` is the number of the candidate that should reproduce the recorded decisions; None if
    there is none.
    """
    compute_effects(engine, candidates, since)
    last = MAX_EPOCH_MS if until is None else until
    throttled_ms = {tuple(sender): ms for *sender, ms in engine.query(_THROTTLED.format(until=last))}
    numbered = [(AS_RECORDED, "as recorded"), *enumerate(candidate.name for candidate in candidates)]
    loads: dict[int, dict[tuple[str, str], Totals]] = {number: {} for number, _ in numbered}
    totals: dict[int, Totals] = {}
    for number, user, client_id, *counts, newly_admitted, newly_rejected, peak in engine.query(_COUNTS):
        seconds = throttled_ms.get((number, user, client_id), 0) / 1000
        load = Totals(*(*counts, seconds, newly_admitted, newly_rejected, peak))
        if user is None:
            totals[number] = load
        else:
            loads[number][user, client_id] = load
    outcomes = [CandidateOutcome(name, totals[number], _senders(loads[number])) for number, name in numbered]
    return Result(None if replayed is None else _replay(engine, replayed, totals[replayed].requests), outcomes)


def _senders(loads: Mapping[tuple[str, str], Totals]) -> list[Sender]:
    senders = [Sender(user, client_id, load) for (user, client_id), load in loads.items()]
    return sorted(
        senders, key=lambda sender: (-sender.load.admitted - sender.load.rejected, sender.user, sender.client_id)
    )


def _replay(engine: Engine, candidate: int, decisions: int) -> Replay:
    rows = engine.query(_DIFFERENCES.format(candidate=candidate))
    examples = [ReplayDifference(decision_id, list(fields)) for decision_id, fields, _ in rows[:_MAX_EXAMPLES]]
    return Replay(decisions, sum(count for *_, count in rows), examples)
