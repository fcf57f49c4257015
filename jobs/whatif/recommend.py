"""`recommend`: computes quotas from recorded requests, and backtests them."""

from jobs.whatif.backtest import evaluate_candidates
from jobs.whatif.demands import measure_demands
from jobs.whatif.recorded import open_requests
from jobs.whatif.sizing import make_advice_from
from quota.callbacks.loading import check_callbacks
from quota.errors import NotFound
from quota.settings import Settings
from quota.whatif.advice import Advice
from quota.whatif.evaluation import Candidate
from quota.whatif.recommendation import SizingInput, Tenancy
from quota.whatif.result import Result


def recommend(
    settings: Settings,
    sizing: SizingInput,
    tenancy: Tenancy,
    period: tuple[int | None, int | None] = (None, None),
) -> Advice:
    """Recommend quotas from the audited requests of a period (epoch ms, without its end)."""
    check_callbacks(settings.quota.callbacks)
    with open_requests(settings, "recommend", period) as engine:
        measured = measure_demands(engine, tenancy, settings.policy.exempt_users, sizing.window)
        if not measured[0]:
            in_period = "" if period == (None, None) else " in that period"
            raise NotFound(f"no requests to size quotas: the table has no charged requests{in_period}")

        def backtest(candidate: Candidate) -> Result:
            return evaluate_candidates(engine, [candidate], until=period[1])

        return make_advice_from(settings, sizing, tenancy, measured, backtest)
