"""Latency, throughput, starts, takeovers and the decision, each with its limit: `make bench`."""

from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from quota.errors import MutationQuotaError
from tests.evidence.bench.performance.figure import Figure
from tests.evidence.bench.performance.ground import Ground, broker, ground
from tests.evidence.bench.performance.sections.decision import decisions, share
from tests.evidence.bench.performance.sections.latency import latency
from tests.evidence.bench.performance.sections.standby import standby
from tests.evidence.bench.performance.sections.start import start
from tests.evidence.bench.performance.sections.throughput import ENFORCE, throughput
from tests.evidence.bench.performance.size import FULL, SMOKE, Size
from tests.evidence.command import Notify, Sections, run
from tests.evidence.machine import load, machine

PAGE = Path(__file__).with_name("page.md.in")
_QUIET_LOAD = 0.7


def _play(options: Namespace, _: Path, notify: Notify) -> dict[str, Any]:
    if load() > _QUIET_LOAD:
        notify(f"other programs use this machine (load {load():.1f}): ratios will be noisy")
    size, wanted = SMOKE if options.smoke else FULL, options.only or ALL
    if options.out and len({DECISION, THROUGHPUT} & set(wanted)) == 1:
        raise MutationQuotaError(f"--out takes {DECISION} and {THROUGHPUT} of one run: the page has their quotient")
    return _results(list(_measured(size, wanted, notify)))


def _results(figures: Sequence[Figure]) -> dict[str, Any]:
    """Return what was measured, as it is printed and stored."""
    figures = [*figures, *share(figures, f"{ENFORCE}, 1,000 active keys")]
    sections: dict[str, list[Any]] = {}
    for figure in figures:
        sections.setdefault(figure.section, []).append(figure.as_json())
    return {"on": machine(), "goals": _goals(sections), "sections": sections}


def _goals(sections: Mapping[str, Sequence[Mapping[str, Any]]]) -> dict[str, int]:
    met = [figure["is_met"] for figures in sections.values() for figure in figures if figure["is_met"] is not None]
    return {"met": sum(met), "count": len(met)}


def _merged(earlier: dict[str, Any], later: dict[str, Any]) -> dict[str, Any]:
    sections = earlier["sections"] | later["sections"]
    return later | {"goals": _goals(sections), "sections": sections}


def _measured(size: Size, wanted: Sequence[str], notify: Notify) -> Iterator[Figure]:
    """Yield the figures of the sections, those in a session each from its own, with a fresh heap."""
    if DECISION in wanted:
        yield from decisions(9 if size is FULL else 1)
    if list(wanted) == [DECISION]:
        return
    with broker() as address:
        for name in [name for name in wanted if name in OF_PROCESSES]:
            yield from OF_PROCESSES[name](address, size, notify)
        for name in [name for name in wanted if name in IN_SESSION]:
            with ground(address, notify, f"audit.trigger_seconds={size.audit_seconds}") as place:
                yield from IN_SESSION[name](place, size)


DECISION = "decision"
"""The section without a broker."""

OF_PROCESSES: dict[str, Callable[[str, Size, Notify], list[Figure]]] = {"start": start, "standby": standby}
"""Sections that start their own processes."""

THROUGHPUT = "throughput"
IN_SESSION: dict[str, Callable[[Ground, Size], list[Figure]]] = {"latency": latency, THROUGHPUT: throughput}

ALL = [DECISION, *OF_PROCESSES, *IN_SESSION]


if __name__ == "__main__":
    run("performance", _play, PAGE, Sections(ALL, _merged))
