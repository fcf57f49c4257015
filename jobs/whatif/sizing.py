"""Recommended quotas with their effect, from measured demands."""

from collections.abc import Callable, Sequence

from jobs.whatif.simulate import make_quotas
from quota.settings import Settings
from quota.whatif.advice import Advice, make_advice, quota_records
from quota.whatif.evaluation import Candidate
from quota.whatif.rates import AlgorithmName, make_algorithm
from quota.whatif.recommendation import Demand, SizingInput, Tenancy, divide_capacity
from quota.whatif.result import Result


def make_advice_from(
    settings: Settings,
    sizing: SizingInput,
    tenancy: Tenancy,
    measured: tuple[Sequence[Demand], float],
    backtest: Callable[[Candidate], Result],
) -> Advice:
    """Divide the capacity by the tenants' demands and their load together, and backtest the quotas."""
    demands, load_together = measured
    policy = settings.policy
    recommendation = divide_capacity(demands, load_together, sizing)
    quotas = make_quotas(quota_records(recommendation, tenancy), settings.quota.callbacks)
    algorithm = make_algorithm(AlgorithmName.TOKEN_BUCKET, sizing.window, policy.deduplication)
    result = backtest(Candidate("recommended", quotas, algorithm, policy))
    return make_advice(recommendation, result, tenancy, policy.exempt_users, sizing.window)
