"""Recommended quotas with their effect, from recorded requests."""

from collections.abc import Iterator
from typing import Protocol

from jobs.whatif.simulate import make_quotas
from quota.admission.policy import Policy
from quota.errors import NotFound
from quota.records.decision import Decision
from quota.settings import Settings
from quota.whatif.advice import Advice, make_advice, quota_records
from quota.whatif.evaluation import Candidate, Period, evaluate
from quota.whatif.rates import AlgorithmName, make_algorithm
from quota.whatif.recommendation import SizingInput, Tenancy, divide_capacity, measure_demands


class RecordedRequests(Protocol):
    """Requests with the decisions on them, in the order of each bucket; they can be read several times."""

    source: str
    """Where they are from, for errors."""
    outcome: str
    """The name of the outcome that they have."""
    period: Period

    def __iter__(self) -> Iterator[Decision]:
        """Yield the decisions."""


def size_quotas(settings: Settings, sizing: SizingInput, tenancy: Tenancy, requests: RecordedRequests) -> Advice:
    """Divide the capacity by the tenants' demands and their load together, and backtest the quotas."""
    policy, period = Policy.of(settings), requests.period
    demands, load_together = measure_demands(requests, tenancy, policy.exempt_users, sizing.window)
    if not demands:
        in_period = "" if period.since is None and period.until is None else " in that period"
        raise NotFound(f"no requests to size quotas: {requests.source} has no charged requests{in_period}")
    recommendation = divide_capacity(demands, load_together, sizing)
    quotas = make_quotas(quota_records(recommendation, tenancy), settings.quota.callbacks)
    algorithm = make_algorithm(AlgorithmName.TOKEN_BUCKET, sizing.window, policy.deduplication)
    candidate = Candidate("recommended", quotas, algorithm, policy)
    result = evaluate(requests, [candidate], requests.outcome, period)
    return make_advice(recommendation, result, tenancy, policy.exempt_users, sizing.window)
