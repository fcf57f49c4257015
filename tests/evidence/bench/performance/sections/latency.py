"""Latency from produce to consume of the decision, enforcing and auditing, compared with the pass-through."""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import median

from pyspark.sql.streaming.query import StreamingQuery

from jobs.audit.query import start_audit
from jobs.enforce.query import start_enforce
from jobs.spark.session import jvm_pid
from jobs.storage.files import DeploymentSession
from quota.settings import Settings
from tests.evidence.bench.performance.figure import Figure, Goal, SideError
from tests.evidence.bench.performance.ground import Ground, start_pass_through
from tests.evidence.bench.performance.java_query import JAVA, check_admissions, start_java
from tests.evidence.bench.performance.load import options_of
from tests.evidence.bench.performance.sections.throughput import EMPTY, start_empty
from tests.evidence.bench.performance.size import Size
from tests.evidence.percentiles import percentile
from tests.support.deployment import with_sections
from tests.support.programs import session_seconds
from tests.support.waiting import until

LIMIT_RATE = 200.0
"""The rate (requests/s) with goals, at which the stateful stage alone is measured as well."""

WARM_RATE = 1000.0

PASS_THROUGH, ENFORCE, ALONE = "pass-through", "enforce and audit", "enforce without the audit"
TUNED = "with the settings of enforce"
"""A limit that waits for fetches and has partitions as `enforce` has them."""

WARM = {ENFORCE: 1.0, EMPTY: 0.2, JAVA: 0.2, PASS_THROUGH: 0.2}
"""Shares of the warm-up: the JVM compiles for about a minute, and the first side runs nearly all of the code.

The audit's part is compiled only as often as the audit has a batch.
"""

PERCENTILES = (50, 90, 99)
GOALS = {
    **{(PASS_THROUGH, LIMIT_RATE, rank): Goal(2.5) for rank in PERCENTILES},
    **{(EMPTY, LIMIT_RATE, rank): Goal(0.65) for rank in PERCENTILES},
    (JAVA, LIMIT_RATE, 50): Goal(1.3),
    (JAVA, LIMIT_RATE, 99): Goal(1.5),
    (PASS_THROUGH, 10.0, 50): Goal(2.5),
    (PASS_THROUGH, 1000.0, 50): Goal(3.5),
}
"""Goals of the ratio of `ENFORCE` to a limit, by limit, rate and percentile."""

PHASES = ("queryPlanning", "addBatch", "triggerExecution")
"""What Spark reports of a batch's time; the last is the whole. Its other phases take 1 or 2 ms."""


@dataclass(frozen=True)
class _Load:
    """What a side has shown at a rate, ms."""

    latencies: list[float]
    phases: dict[str, float]
    """Medians of its latest batches."""
    cores: float
    """Processor time of Spark's JVM and its Python workers, seconds a second."""


def latency(ground: Ground, size: Size) -> list[Figure]:
    """Measure each rate and percentile; the sides alternate."""
    check_admissions(ground)
    taken: dict[tuple[float, str], list[_Load]] = {}
    for side, share in WARM.items():
        ground.notify(f"latency: warming up {side}")
        _measured(_auditing_always(ground), _SIDES[side], [WARM_RATE], replace(size, seconds=size.warm * share))
    for turn in range(size.rounds):
        for side, start in _SIDES.items():
            rates = size.rates if side in {ENFORCE, PASS_THROUGH, JAVA} else [LIMIT_RATE]
            for rate, measured in _measured(ground, start, rates, size).items():
                taken.setdefault((rate, side), []).append(measured)
                shown = ", ".join(f"p{rank} {percentile(measured.latencies, rank / 100):.0f}" for rank in PERCENTILES)
                ground.notify(f"latency: round {turn + 1}, {rate:g}/s, {side}: {shown} ms")
    compared = [
        *((ENFORCE, PASS_THROUGH, rate) for rate in size.rates),
        *((ENFORCE, limit, LIMIT_RATE) for limit in (EMPTY, *_TUNED)),
        *((ENFORCE, JAVA, rate) for rate in size.rates),
        (ALONE, JAVA, LIMIT_RATE),
    ]
    latencies = [_figure(taken, *sides, rank) for sides in compared for rank in _ranks(*sides[1:])]
    return [*latencies, _processors(taken, min(size.rates)), *_phases(taken)]


def _ranks(limit: str, rate: float) -> list[int]:
    """Return the percentiles to compare with a limit: the median, p99, and others that have a goal."""
    return [rank for rank in PERCENTILES if rank in {50, 99} or (limit, rate, rank) in GOALS]


def _figure(taken: dict[tuple[float, str], list[_Load]], side: str, limit: str, rate: float, rank: int) -> Figure:
    sides = (taken[rate, measured] for measured in (side, limit))
    runs, limits = (tuple(percentile(run.latencies, rank / 100) for run in measured) for measured in sides)
    what, goal = f"p{rank} at {rate:g} requests/s", GOALS.get((limit, rate, rank))
    if side == ALONE:
        what, goal = f"{what}, without the audit", None
    return Figure("latency", what, "ms", runs, limit, limits, goal)


def _phases(taken: dict[tuple[float, str], list[_Load]]) -> list[Figure]:
    """Return the time of each phase of a batch, compared with those of the empty function and of the query in Java."""
    figures = []
    for what, side, limit in (("enforce", ENFORCE, EMPTY), (ALONE, ALONE, JAVA)):
        for phase in PHASES:
            runs, limits = (tuple(run.phases[phase] for run in taken[LIMIT_RATE, of]) for of in (side, limit))
            figures.append(Figure("batch", f"{phase} of {what}", "ms", runs, limit, limits))
    return figures


def _processors(taken: dict[tuple[float, str], list[_Load]], rate: float) -> Figure:
    runs, limits = (tuple(run.cores for run in taken[rate, side]) for side in (ENFORCE, PASS_THROUGH))
    return Figure("latency", f"processor time at {rate:g} requests/s", "cores", runs, PASS_THROUGH, limits)


def _auditing_always(ground: Ground) -> Ground:
    return replace(ground, settings=with_sections(ground.settings, audit={"trigger_seconds": 0.0}))


_TUNED: dict[str, Callable[[DeploymentSession], list[StreamingQuery]]] = {
    f"{PASS_THROUGH} {TUNED}": lambda run: [start_pass_through(run, tuned=True)],
    f"{EMPTY} {TUNED}": lambda run: [start_empty(run, tuned=True)],
}
_SIDES: dict[str, Callable[[DeploymentSession], list[StreamingQuery]]] = {
    PASS_THROUGH: lambda run: [start_pass_through(run)],
    EMPTY: lambda run: [start_empty(run)],
    ENFORCE: lambda run: [start_enforce(run), start_audit(run)],
    JAVA: lambda run: [start_java(run)],
    ALONE: lambda run: [start_enforce(run)],
    **_TUNED,
}


def _measured(
    ground: Ground, start: Callable[[DeploymentSession], list[StreamingQuery]], rates: Sequence[float], size: Size
) -> dict[float, _Load]:
    """Return what a side shows at each rate, one after another."""
    settings = ground.deployment("latency")
    queries = start(DeploymentSession.on(ground.spark, settings))
    measured, jvm = {}, jvm_pid(ground.spark)
    try:
        for rate in rates:
            began, used = time.monotonic(), session_seconds(jvm)
            latencies = load(settings, rate, _counted_seconds(settings, rate, size.seconds), size.uncounted)
            cores = (session_seconds(jvm) - used) / (time.monotonic() - began)
            measured[rate] = _Load(latencies, until(lambda: _phase_medians(queries[0])), cores)
    finally:
        for query in queries:
            query.stop()
    return measured


def _phase_medians(query: StreamingQuery) -> dict[str, float]:
    """Return the median of each phase of the batches that Spark still knows; empty before the end of the first one."""
    batches = [progress["durationMs"] for progress in query.recentProgress if progress["numInputRows"]]
    return {phase: median(batch.get(phase, 0) for batch in batches) for phase in PHASES if batches}


def _counted_seconds(settings: Settings, rate: float, seconds: float) -> float:
    """Return the counted time; at the rate with goals it covers one batch of the audit."""
    return max(seconds, settings.audit.trigger_seconds) if rate == LIMIT_RATE else seconds


def load(settings: Settings, rate: float, seconds: float, uncounted: float) -> list[float]:
    """Run the load generator, and return the latencies (ms) in the order of the requests.

    Raises:
        SideError: A request is without an answer.
    """
    options = options_of(settings, rate, seconds, uncounted)
    command = [sys.executable, "-m", "tests.evidence.bench.performance.load", json.dumps(options)]
    answers = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    if answers["unanswered"]:
        raise SideError(f"{settings.topics.requests} at {rate:g} requests/s: {answers['unanswered']} without an answer")
    return answers["latencies_ms"]
