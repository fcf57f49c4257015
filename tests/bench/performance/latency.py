"""From produce to consume of the decision, enforcing and auditing, beside the pass-through."""

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from itertools import count

from pyspark.sql.streaming.query import StreamingQuery

from jobs.audit import start_audit
from jobs.enforce import start_enforce
from quota.settings import Settings
from tests.bench.figures import percentile
from tests.bench.performance.figure import Figure, Goal
from tests.bench.performance.ground import Ground, start_pass_through

USERS = 50
WARM_RATE, WARM_SECONDS = 200.0, 25.0
"""The JVM compiles for about a minute what it runs."""

PERCENTILES = (50, 90, 99)
GOALS = {(200.0, 50): Goal(3), (200.0, 99): Goal(4)}

_numbers = count()


def latency(ground: Ground, rates: Sequence[float], rounds: int, seconds: float) -> list[Figure]:
    """Figures of each rate and percentile; the sides alternate."""
    taken: dict[tuple[float, str], list[list[float]]] = {}
    sides = {"pass-through": _pass_through, "enforce and audit": _enforce_and_audit}
    for side, start in sides.items():
        ground.tell(f"latency: warming up {side}")
        _measure(ground, side, start, WARM_RATE, WARM_SECONDS)
    for turn in range(rounds):
        for rate in rates:
            for side, start in sides.items():
                latencies = _measure(ground, side, start, rate, seconds)
                taken.setdefault((rate, side), []).append(latencies)
                shown = ", ".join(f"p{each} {percentile(latencies, each / 100):.0f}" for each in PERCENTILES)
                ground.tell(f"latency: round {turn + 1}, {rate:g}/s, {side}: {shown} ms")
    return [
        Figure(
            "latency",
            f"p{each} at {rate:g} requests/s",
            "ms",
            tuple(percentile(run, each / 100) for run in taken[rate, "enforce and audit"]),
            "pass-through",
            tuple(percentile(run, each / 100) for run in taken[rate, "pass-through"]),
            GOALS.get((rate, each)),
            at=rate,
        )
        for rate in rates
        for each in PERCENTILES
    ]


def _pass_through(ground: Ground, settings: Settings) -> list[StreamingQuery]:
    return [start_pass_through(ground.spark, settings)]


def _enforce_and_audit(ground: Ground, settings: Settings) -> list[StreamingQuery]:
    return [start_enforce(ground.spark, settings), start_audit(ground.spark, settings)]


def _measure(
    ground: Ground,
    side: str,
    start: Callable[[Ground, Settings], list[StreamingQuery]],
    rate: float,
    seconds: float,
) -> list[float]:
    settings = ground.deployment(f"latency-{next(_numbers)}")
    queries = start(ground, settings)
    try:
        found = load(settings, rate, seconds, warm=6.0)
    finally:
        for query in queries:
            query.stop()
    if found["unanswered"]:
        raise RuntimeError(f"{side} at {rate:g} requests/s: {found['unanswered']} without an answer")
    return found["latencies_ms"]


def load(settings: Settings, rate: float, seconds: float, warm: float):
    """What the load generator prints."""
    topics = settings.topics
    told = {
        "servers": settings.kafka.bootstrap_servers,
        "requests": topics.requests,
        "answers": topics.decisions,
        "name": topics.requests,
        "rate": rate,
        "seconds": seconds,
        "warm": warm,
        "users": USERS,
    }
    command = [sys.executable, "-m", "tests.bench.performance.load"]
    command += [f"--{name}={value}" for name, value in told.items()]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
