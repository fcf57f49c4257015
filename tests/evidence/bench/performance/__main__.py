"""Latency, throughput, state, audit and the decision, each with its limit: `make bench`, `make bench-quick`."""

import argparse
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from quota.errors import MutationQuotaError
from quota.settings import load_settings
from tests.evidence.bench.performance.figure import Figure
from tests.evidence.bench.performance.ground import Ground, broker, ground
from tests.evidence.bench.performance.page import as_json, page, sections, table
from tests.evidence.bench.performance.sections.audit import audit
from tests.evidence.bench.performance.sections.decision import decisions, share
from tests.evidence.bench.performance.sections.earlier import Counted, compared_with_earlier, earlier_tree
from tests.evidence.bench.performance.sections.latency import latency
from tests.evidence.bench.performance.sections.many_keys import many_keys
from tests.evidence.bench.performance.sections.scale_out import scale_out
from tests.evidence.bench.performance.sections.state_size import state_size
from tests.evidence.bench.performance.sections.throughput import ENFORCE, throughput
from tests.evidence.bench.performance.sections.what_if import what_if
from tests.evidence.machine import load, machine
from tests.evidence.pages import progress, terminal

_COLUMNS = 160
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
    keys: Mapping[int, int]
    """Rounds by the number of active keys in a batch."""
    backlog: int
    """Number of waiting requests."""
    buckets: tuple[int, ...]
    """Numbers of stored buckets."""
    decided: int
    """Number of decisions that wait for the audit."""
    rows: int
    """Rows of the table that the audit's queries read."""


MANY_KEYS = (1000, 10_000, 100_000)

FULL = Size(
    rounds=3,
    warm=50.0,
    rates=(10.0, 200.0, 1000.0),
    seconds=5.0,
    keys={1: 3, 1000: 3, 100_000: 2},
    backlog=1_000_000,
    buckets=(10_000, 100_000, 1_000_000),
    decided=300_000,
    rows=10_000_000,
)
QUICK = Size(
    rounds=1,
    warm=20.0,
    rates=(200.0,),
    seconds=6.0,
    keys={1000: 1},
    backlog=300_000,
    buckets=(1000, 10_000),
    decided=150_000,
    rows=100_000,
)


def main() -> None:
    """Measure, and print a table for each section; `--out` writes the page and the JSON."""
    options = _options()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.stdout.reconfigure(line_buffering=True)
    console = terminal(_COLUMNS)
    began, notify = time.monotonic(), progress(console)
    if load() > _QUIET_LOAD:
        notify(f"other programs use this machine (load {load():.1f}): ratios will be noisy")
    figures: list[Figure] = []
    try:
        load_settings(options.set, environment={})  # a wrong setting fails at once
        for taken in _measured(options, notify):
            figures += taken
            for name, of_section in sections(taken).items():
                console.print(table(name, of_section).drawn())
        figures += share(figures, f"{ENFORCE}, 1,000 active keys")
    except KeyboardInterrupt:
        sys.exit("bench: interrupted; nothing was written")
    except MutationQuotaError as error:
        sys.exit(f"bench: {error}")
    if options.out:
        _write(figures, options.out, time.monotonic() - began)
        console.print(f"written: {options.out}/performance.md, .json")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.evidence.bench.performance", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="three minutes: smaller measurements, and no clusters")
    parser.add_argument("--only", nargs="+", choices=ALL, metavar="SECTION", help=", ".join(ALL))
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="for the page and the JSON")
    parser.add_argument("--set", action="append", default=[], metavar="SECTION.KEY=VALUE", help="a setting of the jobs")
    return parser.parse_args()


def _measured(options: argparse.Namespace, notify: Callable[[str], None]) -> Iterator[list[Figure]]:
    """Yield the figures of the sections, each from its own session with a fresh heap; the quick form shares one."""
    size = QUICK if options.quick else FULL
    wanted = options.only or [each for each in ALL if each not in (QUICK_LEAVES_OUT if options.quick else ON_REQUEST)]
    if DECISION in wanted:
        yield decisions(rounds=9)
    if wanted == [DECISION]:
        return
    with broker(*options.set) as address:
        if SCALE_OUT in wanted:
            yield scale_out(address, size.backlog // 10, notify, *options.set)
        if EARLIER in wanted:
            with earlier_tree() as tree:
                if tree:
                    yield compared_with_earlier(address, tree, size.rounds, AUDIT_BATCHES, notify, *options.set)
                else:
                    notify("earlier: skipped, the git history here does not have that commit")
        in_sessions = [each for each in wanted if each in SECTIONS and each not in WITH_TABLES]
        together = [in_sessions] if options.quick and in_sessions else [[each] for each in in_sessions]
        for names in [*together, *([each] for each in wanted if each in WITH_TABLES)]:
            with ground(address, notify, *options.set, delta=names[0] in WITH_TABLES) as place:
                for name in names:
                    yield SECTIONS[name](place, size)


def _latency(place: Ground, size: Size) -> list[Figure]:
    return latency(place, size.rates, size.rounds, size.seconds, size.warm)


def _throughput(place: Ground, size: Size) -> list[Figure]:
    return throughput(place, size.keys, size.backlog, size.seconds / 2)


def _state(place: Ground, size: Size) -> list[Figure]:
    return state_size(place, size.buckets, min(size.rounds, 2))


def _many_keys(place: Ground, size: Size) -> list[Figure]:
    return many_keys(place, MANY_KEYS, size.rounds, size.seconds / 2)


def _audit(place: Ground, size: Size) -> list[Figure]:
    return audit(place, size.decided, size.rows, size.rounds)


DECISION, SCALE_OUT, EARLIER = "decision", "scale out", "earlier"
"""Sections without the common session: the first needs none, the others start their own."""

AUDIT_BATCHES = Counted(warm=30, runs=3, per_run=10)
"""The audit's batches in the comparison with the earlier commit."""

SECTIONS: dict[str, Callable[[Ground, Size], list[Figure]]] = {
    "latency": _latency,
    "throughput": _throughput,
    "state": _state,
    "many keys": _many_keys,
    "audit": _audit,
    "what if": lambda place, size: what_if(place, size.backlog),
}

ALL = [DECISION, SCALE_OUT, EARLIER, *SECTIONS]
WITH_TABLES = {"audit", "what if"}
"""Sections whose session reads and writes Delta tables."""

ON_REQUEST = {"many keys", "what if"}
"""Sections that only `--only` measures, because they take long."""

QUICK_LEAVES_OUT = {*ON_REQUEST, SCALE_OUT, EARLIER}
"""The quick form also leaves out sections that start their own clusters or jobs, which takes minutes."""


def _write(figures: list[Figure], folder: Path, seconds: float) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    on = machine()
    (folder / "performance.md").write_text(page(figures, on, seconds))
    (folder / "performance.json").write_text(as_json(figures, on))


if __name__ == "__main__":
    main()
