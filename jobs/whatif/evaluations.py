"""The evaluations `backtest` and `recommend`, of the requests in the audit's tables or of those in a file."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from jobs.whatif.candidates import make_quotas, parse_candidates
from quota.admission.policy import Policy
from quota.callbacks.instance import check_callbacks
from quota.callbacks.timeline import CallbackTimeline
from quota.errors import NotFound
from quota.records.decision import Decision
from quota.settings import Settings
from quota.whatif.effects import Period
from quota.whatif.evaluation import Candidate, Result, evaluate
from quota.whatif.recommendation import (
    Advice,
    SizingInput,
    Tenancy,
    divide_capacity,
    make_advice,
    measure_demands,
    quota_records,
)
from quota.whatif.rejected_algorithms import AlgorithmName, make_algorithm


class RecordedRequests(Protocol):
    """Requests with the decisions on them, in the order of each bucket; they can be read several times."""

    source: str
    """Where they are from, for errors."""
    outcome: str
    """The name of the outcome that they have."""
    period: Period
    withdrawn: frozenset[str]
    """The ids of the decisions whose charge was given back, as far as they are known: nobody acted on them."""

    def __iter__(self) -> Iterator[Decision]:
        """Yield the decisions."""


def _open(
    settings: Settings, file: str | None, period: Period, *, with_earlier: bool = False
) -> AbstractContextManager[RecordedRequests]:
    if file is None:
        from jobs.whatif import audited_requests  # noqa: PLC0415 the base installation is without DuckDB

        return audited_requests.open_requests(settings, period, with_earlier=with_earlier)
    from jobs.whatif import request_file  # noqa: PLC0415

    return request_file.open_requests(settings, file, period, with_earlier=with_earlier)


def backtest(settings: Settings, candidates: Sequence[str], period: Period, file: str | None = None) -> Result:
    """Replay audited requests, with the recorded quotas and with each candidate; or those of a file, with each.

    The requests of the period count; earlier ones only charge the buckets.
    """
    check_callbacks(settings.quota.callbacks)
    recorded = CallbackTimeline(settings.quota.callbacks) if file is None else None
    parsed = parse_candidates(candidates, recorded, settings)
    if recorded is not None:
        from jobs.whatif.audited_requests import add_recorded_changes  # noqa: PLC0415

        add_recorded_changes(recorded, settings)
    with _open(settings, file, period, with_earlier=True) as requests:
        result = evaluate(requests, parsed, requests.outcome, requests.period, reproduces=recorded is not None)
    if not result.outcomes:
        raise NotFound(f"there are no decisions: {requests.source} has none in that period")
    return result


def recommend(
    settings: Settings, sizing: SizingInput, tenancy: Tenancy, period: Period, file: str | None = None
) -> Advice:
    """Recommend quotas from the audited requests of a period, or from those of a file."""
    check_callbacks(settings.quota.callbacks)
    with _open(settings, file, period) as requests:
        return _size_quotas(settings, sizing, tenancy, requests)


def _size_quotas(settings: Settings, sizing: SizingInput, tenancy: Tenancy, requests: RecordedRequests) -> Advice:
    """Divide the capacity by the tenants' demands and their load together, and backtest the quotas."""
    policy, period = Policy.of(settings), requests.period

    def lasting() -> Iterator[Decision]:
        return (decision for decision in requests if decision.decision_id not in requests.withdrawn)

    demands, load_together = measure_demands(lasting(), tenancy, policy.exempt_users, sizing.window)
    if not demands:
        in_period = "" if period.since is None and period.until is None else " in that period"
        raise NotFound(f"no requests to size quotas: {requests.source} has no charged requests{in_period}")
    recommendation = divide_capacity(demands, load_together, sizing)
    quotas = make_quotas(quota_records(recommendation, tenancy), settings.quota.callbacks)
    algorithm = make_algorithm(AlgorithmName.TOKEN_BUCKET, sizing.window, policy.deduplication)
    candidate = Candidate("recommended", quotas, algorithm, policy)
    result = evaluate(lasting(), [candidate], requests.outcome, period)
    return make_advice(recommendation, result, tenancy, policy.exempt_users, sizing.window)
