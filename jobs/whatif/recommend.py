"""`recommend`: computes quotas from recorded requests, and backtests them."""

from jobs.whatif.backtest import evaluate_candidates
from jobs.whatif.demands import measure_demands
from jobs.whatif.effects import Candidate
from jobs.whatif.recorded import RecordedRequests, open_requests
from jobs.whatif.simulate import make_quotas
from quota.callbacks.loading import check_callbacks
from quota.errors import MutationQuotaError
from quota.settings import Settings
from quota.whatif.advice import Advice, make_advice, quota_records
from quota.whatif.rates import AlgorithmName, make_algorithm
from quota.whatif.recommendation import SizingInput, Tenancy, divide_capacity


def recommend(
    settings: Settings,
    sizing: SizingInput,
    tenancy: Tenancy,
    period: tuple[int | None, int | None] = (None, None),
    file: str | None = None,
) -> Advice:
    """Recommend quotas from the audited requests of a period (epoch ms, without its end), or from those of a file."""
    check_callbacks(settings.quota.callbacks)
    with open_requests(settings, "recommend", period, file) as requests:
        return advise(settings, sizing, tenancy, requests, period[1])


def advise(
    settings: Settings, sizing: SizingInput, tenancy: Tenancy, requests: RecordedRequests, until: int | None = None
) -> Advice:
    """Recommend quotas from these requests; throttle times are cut at `until` (epoch ms)."""
    policy, window = settings.policy, sizing.window
    demands, load_together = measure_demands(requests.engine, tenancy, policy.exempt_users, window)
    if not demands:
        of_that_time = " in that period" if requests.in_period else ""
        raise MutationQuotaError(f"no requests to size quotas: {requests.origin} has no charged requests{of_that_time}")
    recommendation = divide_capacity(demands, load_together, sizing)
    quotas = make_quotas(quota_records(recommendation, tenancy), settings.quota.callbacks)
    algorithm = make_algorithm(AlgorithmName.TOKEN_BUCKET, window, policy.deduplication)
    candidate = Candidate("recommended", quotas, algorithm, policy)
    result = evaluate_candidates(requests, [candidate], until=until)
    return make_advice(recommendation, result, tenancy, policy.exempt_users, window)
