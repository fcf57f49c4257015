"""Latency, throughput, state, audit, starts and the decision, each with its limit: `make bench`."""

import time
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from tests.evidence.bench.performance.figure import Figure
from tests.evidence.bench.performance.ground import Ground, broker, ground
from tests.evidence.bench.performance.sections.audit import audit
from tests.evidence.bench.performance.sections.decision import decisions, share
from tests.evidence.bench.performance.sections.latency import latency
from tests.evidence.bench.performance.sections.scale_out import scale_out
from tests.evidence.bench.performance.sections.start import start
from tests.evidence.bench.performance.sections.state_size import state_size
from tests.evidence.bench.performance.sections.throughput import ENFORCE, throughput
from tests.evidence.bench.performance.sections.what_if import what_if
from tests.evidence.bench.performance.size import FULL, SMOKE, Size
from tests.evidence.command import Notify, run
from tests.evidence.machine import load, machine

PAGE = Path(__file__).with_name("page.md.in")
_QUIET_LOAD = 0.7


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
            yield from start(address, size, notify)
        in_session = [name for name in wanted if name in SECTIONS]
        for names in [in_session] if size is SMOKE and in_session else [[name] for name in in_session]:
            delta = not WITH_TABLES.isdisjoint(names)
            with ground(address, notify, f"audit.trigger_seconds={size.audit_seconds}", delta=delta) as place:
                yield from in_one_session(place, size, names)


def in_one_session(place: Ground, size: Size, names: Iterable[str]) -> Iterator[Figure]:
    """Yield the figures of sections that share a session."""
    for name in names:
        yield from SECTIONS[name](place, size)


DECISION, SCALE_OUT, START = "decision", "scale out", "start"
"""Sections without the common session: the first needs none, the others start their own processes."""

SECTIONS: dict[str, Callable[[Ground, Size], list[Figure]]] = {
    "latency": latency,
    "throughput": throughput,
    "state": state_size,
    "audit": audit,
    "what if": what_if,
}

ALL = [DECISION, SCALE_OUT, START, *SECTIONS]
WITH_TABLES = {"audit", "what if"}
"""Sections whose session reads and writes Delta tables."""

ON_REQUEST = {"what if"}
"""Sections that only `--only` and `--smoke` run, because they take long."""


if __name__ == "__main__":
    run("performance", _play, PAGE, ALL)
