"""Latency, throughput, state, audit, starts and the decision, each with its limit: `make bench`."""

import time
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.evidence.bench.performance.figure import Figure
from tests.evidence.bench.performance.ground import Ground, broker, ground
from tests.evidence.bench.performance.sections.audit import audit
from tests.evidence.bench.performance.sections.decision import decisions, share
from tests.evidence.bench.performance.sections.latency import Loads, latency
from tests.evidence.bench.performance.sections.scale_out import scale_out
from tests.evidence.bench.performance.sections.start import start
from tests.evidence.bench.performance.sections.state_size import state_size
from tests.evidence.bench.performance.sections.throughput import ENFORCE, Drains, throughput
from tests.evidence.bench.performance.sections.what_if import what_if
from tests.evidence.command import Notify, run
from tests.evidence.machine import load, machine

PAGE = Path(__file__).with_name("page.md.in")
_QUIET_LOAD = 0.7


@dataclass(frozen=True, slots=True)
class Size:
    """The size of a measurement."""

    rounds: int
    warm: float
    """Time of the warm-up for latencies, seconds."""
    rates: tuple[float, ...]
    """Rates of the latencies, requests/s."""
    seconds: float
    """Time for which a rate is measured."""
    uncounted: float
    """Time at the start of each load that does not count."""
    keys: Mapping[int, int]
    """Rounds by the number of active keys in a batch."""
    backlog: int
    """Number of waiting requests."""
    batch: int
    """Requests of a batch of the backlog."""
    few: int
    """Number of active keys up to which the first batch of a drain makes the buckets."""
    buckets: tuple[int, ...]
    """Numbers of stored buckets."""
    active: int
    """Active keys in a batch on these buckets."""
    batches: int
    """Batches on these buckets in a round, and batches of the audit's backlog."""
    decided: int
    """Number of decisions that wait for the audit."""
    rows: int
    """Rows of the table that the audit's queries read."""
    audit_seconds: float
    """Time from one batch of the audit to the next."""
    what_if: int
    """Number of decisions that are decided again."""


FULL = Size(
    rounds=3,
    warm=50.0,
    rates=(10.0, 200.0, 1000.0),
    seconds=5.0,
    uncounted=2.0,
    keys={1: 3, 1000: 3, 100_000: 2},
    backlog=1_000_000,
    batch=100_000,
    few=10_000,
    buckets=(10_000, 100_000, 1_000_000),
    active=1000,
    batches=6,
    decided=300_000,
    rows=10_000_000,
    audit_seconds=10.0,
    what_if=1_000_000,
)
SMOKE = Size(
    rounds=1,
    warm=0,
    rates=(200.0,),
    seconds=0.5,
    uncounted=0.2,
    keys={5: 1, 20: 1},
    backlog=600,
    batch=200,
    few=10,
    buckets=(100, 150),
    active=50,
    batches=2,
    decided=200,
    rows=100,
    audit_seconds=1.0,
    what_if=200,
)


def _play(options: Namespace, _: Path, notify: Notify) -> dict[str, Any]:
    began = time.monotonic()
    if load() > _QUIET_LOAD:
        notify(f"other programs use this machine (load {load():.1f}): ratios will be noisy")
    size = SMOKE if options.smoke else FULL
    wanted = options.only or [name for name in ALL if options.smoke or name not in ON_REQUEST]
    return results(list(_measured(size, wanted, notify)), time.monotonic() - began)


def results(figures: Sequence[Figure], seconds: float) -> dict[str, Any]:
    """Return what was measured, as it is printed and stored."""
    figures = [*figures, *share(figures, f"{ENFORCE}, 1,000 active keys")]
    sections: dict[str, list[Any]] = {}
    for figure in figures:
        sections.setdefault(figure.section, []).append(figure.as_json())
    goals = [figure.is_met for figure in figures if figure.is_met is not None]
    return {
        "minutes": round(seconds / 60, 1),
        "on": machine(),
        "goals": {"met": sum(goals), "count": len(goals)},
        "sections": sections,
    }


def _measured(size: Size, wanted: Sequence[str], notify: Notify) -> Iterator[Figure]:
    """Yield the figures of the sections, each from its own session with a fresh heap; the smoke form shares one."""
    if DECISION in wanted:
        yield from decisions(9 if size is FULL else 1)
    if list(wanted) == [DECISION]:
        return
    with broker() as address:
        if SCALE_OUT in wanted:
            yield from scale_out(address, size.backlog // 10, notify)
        if START in wanted:
            yield from start(address, size.rounds, notify)
        in_session = [name for name in wanted if name in SECTIONS]
        for names in [in_session] if size is SMOKE and in_session else [[name] for name in in_session]:
            delta = not WITH_TABLES.isdisjoint(names)
            with ground(address, notify, f"audit.trigger_seconds={size.audit_seconds}", delta=delta) as place:
                yield from in_one_session(place, size, names)


def in_one_session(place: Ground, size: Size, names: Iterable[str]) -> Iterator[Figure]:
    """Yield the figures of sections that share a session."""
    for name in names:
        yield from SECTIONS[name](place, size)


def _latency(place: Ground, size: Size) -> list[Figure]:
    return latency(place, Loads(size.rates, size.rounds, size.seconds, size.uncounted, size.warm))


def _throughput(place: Ground, size: Size) -> list[Figure]:
    return throughput(place, Drains(size.keys, size.backlog, size.batch, size.few, size.seconds / 2))


def _state(place: Ground, size: Size) -> list[Figure]:
    return state_size(place, size.buckets, size.active, size.batches, min(size.rounds, 2))


def _audit(place: Ground, size: Size) -> list[Figure]:
    return audit(place, size.decided, size.batches, size.rows, size.rounds)


DECISION, SCALE_OUT, START = "decision", "scale out", "start"
"""Sections without the common session: the first needs none, the others start their own processes."""

SECTIONS: dict[str, Callable[[Ground, Size], list[Figure]]] = {
    "latency": _latency,
    "throughput": _throughput,
    "state": _state,
    "audit": _audit,
    "what if": lambda place, size: what_if(place, size.what_if),
}

ALL = [DECISION, SCALE_OUT, START, *SECTIONS]
WITH_TABLES = {"audit", "what if"}
"""Sections whose session reads and writes Delta tables."""

ON_REQUEST = {"what if"}
"""Sections that only `--only` and `--smoke` run, because they take long."""


if __name__ == "__main__":
    run("performance", _play, PAGE, ALL)
