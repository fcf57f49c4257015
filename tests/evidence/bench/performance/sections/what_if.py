"""Re-evaluating audited decisions, compared with enforcing and auditing them."""

import time
from collections.abc import Callable, Sequence

from jobs.audit.query import start_audit
from jobs.enforce.query import start_enforce
from jobs.storage.run import Run
from jobs.whatif.backtest import evaluate_candidates, parse_candidates
from jobs.whatif.recorded import add_recorded_changes
from jobs.whatif.spark_engine import SparkEngine, read_audited
from quota.callbacks.timeline import CallbackTimeline
from quota.settings import Settings
from quota.whatif.result import Result
from tests.evidence.bench.performance.backlog import fill
from tests.evidence.bench.performance.figure import Figure
from tests.evidence.bench.performance.ground import Ground
from tests.evidence.bench.performance.size import Size

USERS = 1000
CANDIDATES = {0: (), 2: ("window-num=5", "algorithm=sampled-rate")}
"""Candidates by their number, besides the recorded quotas."""


def what_if(ground: Ground, size: Size) -> list[Figure]:
    """Measure requests/s over a table of decisions."""
    settings, requests = ground.deployment("what-if"), size.what_if
    fill(settings, requests, USERS)

    def rate(what: str, work: Callable[[], object]) -> float:
        began = time.monotonic()
        work()
        seconds = time.monotonic() - began
        ground.notify(f"what if: {what} of {requests:,} requests took {seconds:.0f} s")
        return requests / seconds

    enforced = rate("enforcing", lambda: start_enforce(Run.on(ground.spark, settings), once=True).awaitTermination())
    kept = rate("the audit", lambda: start_audit(Run.on(ground.spark, settings), once=True).awaitTermination())
    figures = []
    for more, texts in CANDIDATES.items():
        repetitions = []
        again = rate(
            f"deciding again by the recorded quotas and {more} others",
            lambda texts=texts, to=repetitions: to.append(_decided_again(ground, settings, texts)),
        )
        (result,) = repetitions
        if result.replay.differing or result.replay.decisions != requests:
            raise RuntimeError(f"the recorded quotas give other decisions: {result.replay}")
        what = f"decided again, by the recorded quotas and {more} others; {requests:,} requests"
        figures += [
            Figure("what if", what, "1/s", (again,), "enforce", (enforced,)),
            Figure("what if", what, "1/s", (again,), "audit", (kept,)),
        ]
    return figures


def _decided_again(ground: Ground, settings: Settings, texts: Sequence[str]) -> Result:
    recorded = CallbackTimeline(settings.quota.callbacks)
    tried = parse_candidates(texts, recorded, settings)
    add_recorded_changes(recorded, settings)
    engine = SparkEngine(ground.spark, read_audited(ground.spark, settings))
    return evaluate_candidates(engine, tried, replayed=0)
