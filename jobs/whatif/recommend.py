"""`recommend`: computes quotas from recorded requests, and backtests them."""

from dataclasses import dataclass

from jobs.spark.progress import with_progress
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


@dataclass(frozen=True, slots=True)
class RecommendOptions:
    """The options of a recommendation."""

    sizing: SizingInput
    """The capacity and the share of it to allocate."""
    tenancy: Tenancy
    """The tenants."""
    since: int | None = None
    """The start of the requests' period [epoch ms]."""
    until: int | None = None
    """Its end, exclusive [epoch ms]."""
    file: str | None = None
    """A file of requests that replaces the audit's tables."""


def recommend(settings: Settings, options: RecommendOptions) -> Advice:
    """Recommend quotas from audited requests, or from those of a file."""
    check_callbacks(settings.quota.callbacks)
    with open_requests(settings, "recommend", (options.since, options.until), options.file) as requests:
        return advise(settings, options, requests)


def advise(settings: Settings, options: RecommendOptions, requests: RecordedRequests) -> Advice:
    """Recommend quotas from these requests."""
    policy, window = settings.policy, options.sizing.window
    decisions = requests.decisions
    demands, load_together = with_progress(
        decisions.sparkSession,
        "measuring needs",
        lambda: measure_demands(decisions, options.tenancy, policy.exempt_users, window),
    )
    if not demands:
        of_that_time = " in that period" if requests.in_period else ""
        raise MutationQuotaError(f"no requests to size quotas: {requests.origin} has no charged requests{of_that_time}")
    recommendation = divide_capacity(demands, load_together, options.sizing)
    quotas = make_quotas(quota_records(recommendation, options.tenancy), settings.quota.callbacks)
    algorithm = make_algorithm(AlgorithmName.TOKEN_BUCKET, window, policy.deduplication)
    candidate = Candidate("recommended", quotas, algorithm, policy)
    result = evaluate_candidates(requests, [candidate], until=options.until)
    return make_advice(recommendation, result, options.tenancy, policy.exempt_users, window)
