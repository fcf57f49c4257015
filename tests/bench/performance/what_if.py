"""Judging audited decisions again, beside enforcing and auditing them."""

import time
from collections.abc import Callable

from jobs.audit import start_audit
from jobs.enforce import start_enforce
from jobs.whatif import judged_again
from tests.bench.performance.backlog import fill
from tests.bench.performance.figure import Figure
from tests.bench.performance.ground import Ground

USERS = 1000
CANDIDATES = {0: (), 2: ("window-num=5", "algorithm=sampled-rate")}
"""By their number; the recorded quotas are judged by besides."""


def what_if(ground: Ground, requests: int) -> list[Figure]:
    """Requests a second, of all of a table."""
    settings = ground.deployment("what-if")
    fill(settings, requests, USERS)

    def rate(what: str, work: Callable[[], object]) -> float:
        began = time.monotonic()
        work()
        seconds = time.monotonic() - began
        ground.tell(f"what if: {what} of {requests:,} requests took {seconds:.0f} s")
        return requests / seconds

    enforced = rate("enforcing", lambda: start_enforce(ground.spark, settings, once=True).awaitTermination())
    audited = rate("the audit", lambda: start_audit(ground.spark, settings, once=True).awaitTermination())
    figures = []
    for more, texts in CANDIDATES.items():
        repetitions = []
        again = rate(
            f"judging by {more + 1} candidates",
            lambda texts=texts, to=repetitions: to.append(judged_again(ground.spark, settings, texts, None, None)),
        )
        (result,) = repetitions
        if result.repetition.differing or result.repetition.decisions != requests:
            raise RuntimeError(f"not what was decided: {result.repetition}")
        what = f"judged again, by {more + 1} candidates; {requests:,} requests"
        figures += [
            Figure("what if", what, "1/s", (again,), "enforce", (enforced,)),
            Figure("what if", what, "1/s", (again,), "audit", (audited,)),
        ]
    return figures
