"""`backtest`: replays recorded requests with different quotas, windows or algorithms."""

from collections.abc import Sequence

from jobs.audit.tables.specs import DECISIONS, QUOTA_CHANGES
from jobs.spark.progress import with_progress
from jobs.whatif.candidates import parse_candidates
from jobs.whatif.effects import Candidate, compute_effects
from jobs.whatif.recorded import RecordedRequests, add_recorded_changes, open_requests
from jobs.whatif.result import count_effects
from quota.callbacks.loading import check_callbacks
from quota.callbacks.timeline import CallbackTimeline
from quota.errors import MutationQuotaError
from quota.settings import Settings
from quota.whatif.result import Result


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
