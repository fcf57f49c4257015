"""The decision alone, in plain Python, compared with Python's rate limiters in memory."""

import itertools
import os
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from limits import RateLimitItemPerSecond
from limits.storage import MemoryStorage
from limits.strategies import (
    FixedWindowRateLimiter,
    MovingWindowRateLimiter,
    RateLimiter,
    SlidingWindowCounterRateLimiter,
)
from pyrate_limiter import Duration, Limiter, Rate

from quota.admission.decide import decide
from quota.algorithms.token_bucket import TokenBucket
from quota.records.levels import ResolvedRequest
from quota.records.quota_log import Window
from tests.evidence.bench.performance.figure import Figure
from tests.support.factories import resolved

REQUESTS = 5000
USERS = 50
PLENTY = 1_000_000

VERDICT = "a bucket's verdict: admitted or not, for how long, and its state"
RECORD = "the whole decision, as it is written"

Side = Callable[[], object]


def decisions(rounds: int) -> list[Figure]:
    """Measure decisions a second of processor time; the best library is the limit."""
    libraries, ours = dict(_libraries()), dict(_ours())
    rates: dict[str, list[float]] = {name: [] for name in [*libraries, *ours]}
    for _, (name, side) in itertools.product(range(rounds), [*libraries.items(), *ours.items()]):
        rates[name].append(_per_second(side))
    best = max(libraries, key=lambda name: statistics.median(rates[name]))
    return [Figure("decision", name, "1/s", tuple(rates[name])) for name in libraries] + [
        Figure("decision", name, "1/s", tuple(rates[name]), best, tuple(rates[best])) for name in ours
    ]


def share(figures: Sequence[Figure], request: str) -> Iterator[Figure]:
    """Yield the decision's part of the processor time of a request, if both are measured."""
    rates = {figure.what: figure.median for figure in figures}
    if RECORD in rates and request in rates:
        of_a_request = len(os.sched_getaffinity(0)) / rates[request]
        yield Figure("decision", f"{RECORD}, of a request ({request})", "%", (100 / rates[RECORD] / of_a_request,))


def _libraries() -> Iterator[tuple[str, Side]]:
    """Yield the libraries, which admit everything: a rejection costs them less, and is not comparable."""
    users = [f"user-{number % USERS}" for number in range(REQUESTS)]
    for strategy in (FixedWindowRateLimiter, MovingWindowRateLimiter, SlidingWindowCounterRateLimiter):
        yield f"limits, {strategy.__name__}", partial(_hit_all, strategy(MemoryStorage()), users)
    yield "pyrate-limiter, in memory", partial(_acquire_all, Limiter(Rate(PLENTY, Duration.SECOND)), users)


def _ours() -> Iterator[tuple[str, Side]]:
    """Yield our sides: strict requests for one topic of one partition, all admitted."""
    requests = [resolved(1, user=f"user-{number % USERS}", rate=PLENTY, offset=number) for number in range(REQUESTS)]
    yield VERDICT, partial(_admit_all, requests)
    yield RECORD, partial(_decide_all, requests)


def _hit_all(limiter: RateLimiter, users: list[str]) -> None:
    item = RateLimitItemPerSecond(PLENTY)
    for user in users:
        limiter.hit(item, user)


def _acquire_all(limiter: Limiter, users: list[str]) -> None:
    for user in users:
        limiter.try_acquire(user, blocking=False)


def _admit_all(requests: list[ResolvedRequest]) -> None:
    algorithm, buckets = TokenBucket(Window()), {}
    for request in requests:
        user = request.request.user
        buckets[user], _ = algorithm.admit(buckets.get(user), request)


def _decide_all(requests: list[ResolvedRequest]) -> None:
    algorithm, buckets = TokenBucket(Window()), {}
    for request in requests:
        user = request.request.user
        buckets[user], _ = decide(buckets.get(user), request, algorithm)


def _per_second(side: Side) -> float:
    began = time.process_time()
    side()
    return REQUESTS / (time.process_time() - began)
