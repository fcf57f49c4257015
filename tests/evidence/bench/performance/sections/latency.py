"""Latency from produce to consume of the decision, enforcing and auditing, compared with the pass-through."""

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace

from pyspark.sql.streaming.query import StreamingQuery

from jobs.audit.query import start_audit
from jobs.enforce.query import start_enforce
from jobs.storage.run import Run
from quota.settings import Settings
from tests.evidence.bench.performance.figure import Figure, Goal
from tests.evidence.bench.performance.ground import Ground, start_pass_through
from tests.evidence.bench.performance.sections.throughput import EMPTY, PASS_THROUGH, start_empty
from tests.evidence.bench.performance.size import Size
from tests.evidence.percentiles import percentile

USERS = 50
LIMIT_RATE = 200.0
"""The rate (requests/s) with goals, at which the stateful stage alone is measured as well."""

WARM_RATE = 1000.0

ENFORCE = "enforce and audit"
WARM = {ENFORCE: 1.0, EMPTY: 0.2, PASS_THROUGH: 0.2}
"""Shares of the warm-up: the JVM compiles for about a minute, and the first side runs nearly all of the code.

The audit's part is compiled only as often as the audit has a batch.
"""

PERCENTILES = (50, 90, 99)
GOALS = {(LIMIT_RATE, 50): Goal(3), (LIMIT_RATE, 99): Goal(4)}


def latency(ground: Ground, size: Size) -> list[Figure]:
    """Measure each rate and percentile; the sides alternate."""
    taken: dict[tuple[float, str], list[list[float]]] = {}
    for side, share in WARM.items() if size.warm else ():
        ground.notify(f"latency: warming up {side}")
        _measured(_auditing_always(ground), _SIDES[side], [WARM_RATE], replace(size, seconds=size.warm * share))
    for turn in range(size.rounds):
        for side, start in _SIDES.items():
            rates = [LIMIT_RATE] if side == EMPTY else size.rates
            for rate, latencies in _measured(ground, start, rates, size).items():
                taken.setdefault((rate, side), []).append(latencies)
                shown = ", ".join(f"p{each} {percentile(latencies, each / 100):.0f}" for each in PERCENTILES)
                ground.notify(f"latency: round {turn + 1}, {rate:g}/s, {side}: {shown} ms")
    figures = [_figure(taken, rate, each, ENFORCE) for rate in size.rates for each in PERCENTILES]
    return figures + [_figure(taken, LIMIT_RATE, each, EMPTY) for each in PERCENTILES]


def _figure(taken: dict[tuple[float, str], list[list[float]]], rate: float, each: int, side: str) -> Figure:
    runs, limit = (tuple(percentile(run, each / 100) for run in taken[rate, of]) for of in (side, PASS_THROUGH))
    what = f"p{each} at {rate:g} requests/s"
    if side == EMPTY:
        return Figure("latency", f"{what}, {EMPTY} and no audit", "ms", runs, PASS_THROUGH, limit)
    return Figure("latency", what, "ms", runs, PASS_THROUGH, limit, GOALS.get((rate, each)), at=rate)


def _auditing_always(ground: Ground) -> Ground:
    audit = ground.settings.audit.model_copy(update={"trigger_seconds": 0.0})
    return replace(ground, settings=ground.settings.model_copy(update={"audit": audit}))


def _enforce_and_audit(ground: Ground, settings: Settings) -> list[StreamingQuery]:
    return [start_enforce(Run.on(ground.spark, settings)), start_audit(Run.on(ground.spark, settings))]


_SIDES: dict[str, Callable[[Ground, Settings], list[StreamingQuery]]] = {
    PASS_THROUGH: lambda ground, settings: [start_pass_through(Run.on(ground.spark, settings))],
    EMPTY: lambda ground, settings: [start_empty(Run.on(ground.spark, settings))],
    ENFORCE: _enforce_and_audit,
}


def _measured(
    ground: Ground, start: Callable[[Ground, Settings], list[StreamingQuery]], rates: Sequence[float], size: Size
) -> dict[float, list[float]]:
    """Return the latencies in ms at each rate, one after another."""
    settings = ground.deployment("latency")
    queries = start(ground, settings)
    try:
        found = {
            rate: load(settings, rate, _counted_seconds(settings, rate, size.seconds), size.uncounted) for rate in rates
        }
    finally:
        for query in queries:
            query.stop()
    for rate, of_rate in found.items():
        if of_rate["unanswered"]:
            raise RuntimeError(f"{queries[0].name} at {rate:g} requests/s: {of_rate['unanswered']} without an answer")
    return {rate: of_rate["latencies_ms"] for rate, of_rate in found.items()}


def _counted_seconds(settings: Settings, rate: float, seconds: float) -> float:
    """Return the counted time; at the rate with goals it covers one batch of the audit."""
    return max(seconds, settings.audit.trigger_seconds) if rate == LIMIT_RATE else seconds


def load(settings: Settings, rate: float, seconds: float, uncounted: float):
    """Run the load generator, and return its output."""
    topics = settings.topics
    options = {
        "servers": settings.kafka.bootstrap_servers,
        "requests": topics.requests,
        "answers": topics.decisions,
        "name": f"{topics.requests}-{rate:g}",
        "rate": rate,
        "seconds": seconds,
        "warm": uncounted,
        "users": USERS,
    }
    command = [sys.executable, "-m", "tests.evidence.bench.performance.load", json.dumps(options)]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
