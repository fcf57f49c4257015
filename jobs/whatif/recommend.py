"""`recommend`: read the requests, size quotas by them, and judge the requests by those."""

from dataclasses import dataclass

from jobs.spark.progress import with_progress
from jobs.whatif.backtest import judge_requests, what_if_session
from jobs.whatif.candidates import since_ever
from jobs.whatif.demands import measure_demands
from jobs.whatif.effects import Candidate
from jobs.whatif.recorded import RecordedRequests, audited_requests, requests_of_file
from jobs.whatif.requests import read_requests
from quota.algorithms.registry import AlgorithmName, make_algorithm
from quota.callbacks.loading import check_callbacks
from quota.errors import MutationQuotaError
from quota.settings.model import Settings
from quota.whatif.advice import Advice, make_advice, quota_records
from quota.whatif.recommendation import SizingInput, divide_capacity
from quota.whatif.tenancy import Tenancy

NAME = "recommend"


@dataclass(frozen=True, slots=True)
class RecommendOptions:
    """What quotas are to be sized by and for."""

    ground: SizingInput
    tenancy: Tenancy
    since: int | None = None
    """Requests from then on count (epoch ms)."""
    until: int | None = None
    """And before then."""
    file: str | None = None
    """Of requests, in place of the audit's tables."""


def recommend(settings: Settings, wanted: RecommendOptions) -> Advice:
    """Recommend quotas by requests of the audit, or of a file.

    Raises:
        BadInput: the file cannot be read.
        MutationQuotaError: there are no tables, or nothing in them that quotas could be sized by.
    """
    check_callbacks(settings.quota.callbacks)
    if wanted.file is None:
        with what_if_session(settings, NAME) as spark:
            return advice(settings, wanted, audited_requests(spark, settings, wanted.since, wanted.until))
    requests = read_requests(settings, wanted.file, wanted.since, wanted.until)
    of_a_time = (wanted.since, wanted.until) != (None, None)
    with what_if_session(settings, NAME) as spark:
        return advice(settings, wanted, requests_of_file(spark, requests, wanted.file, of_a_time=of_a_time))


def advice(settings: Settings, wanted: RecommendOptions, traffic: RecordedRequests) -> Advice:
    """The same of requests that are there.

    Raises:
        MutationQuotaError: none of them was charged for anything.
    """
    policy, window = settings.policy, wanted.ground.window
    decisions = traffic.decisions
    demands, load_together = with_progress(
        decisions.sparkSession,
        "measuring needs",
        lambda: measure_demands(decisions, wanted.tenancy, policy.exempt_users, window),
    )
    if not demands:
        of_that_time = " of that time" if traffic.of_a_time else ""
        raise MutationQuotaError(
            f"there is nothing to size quotas by: {traffic.held_by} holds no requests{of_that_time} that are charged"
        )
    found = divide_capacity(demands, load_together, wanted.ground)
    quotas = since_ever(quota_records(found, wanted.tenancy), settings.quota.callbacks)
    algorithm = make_algorithm(AlgorithmName.TOKEN_BUCKET, window, policy.repeats)
    result = judge_requests(traffic, [Candidate("recommended", quotas, algorithm, policy)], until=wanted.until)
    return make_advice(found, result, wanted.tenancy, policy.exempt_users, window)
