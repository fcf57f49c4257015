"""Checks with random logs that any cut of the stream into batches gives the same decisions: `make replay`."""

import argparse
import random
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st
from rich.console import Console

from jobs.spark.session import start_session, stop_session
from quota.errors import MutationQuotaError
from quota.settings import load_settings
from tests.evidence.pages import terminal, write_page
from tests.evidence.replay.page import Result, page
from tests.evidence.replay.tally import Counting, mutant_table, tally_table
from tests.support.reference.log import Log
from tests.support.replay.chance import cases, shared_cases
from tests.support.replay.engine import SparkEngine
from tests.support.replay.mutants import MUTANTS, mutated
from tests.support.replay.plain import PlainEngine
from tests.support.replay.properties import Engine, check_any_partitions, check_one_partition
from tests.support.replay.run import Run

_COLUMNS = 120
_EXAMPLES = 60
_TRIES = 200
"""Maximum number of logs, without Spark, until a mutant is noticed."""

Check = Callable[[Engine, Log, list[Run]], None]

PROPERTIES: dict[str, tuple[Check, Callable[..., st.SearchStrategy[tuple[Log, list[Run]]]]]] = {
    "one partition per bucket": (check_one_partition, cases),
    "several partitions per bucket": (check_any_partitions, shared_cases),
}


def main() -> None:
    """Run the program; a violation is printed to standard error with the smallest log that shows it."""
    options = _options()
    console = terminal(_COLUMNS)
    console.print(f"{options.examples} logs of each kind, seed {options.seed}")
    try:
        _run(options, console)
    except AssertionError as broken:
        notes = "\n".join(getattr(broken, "__notes__", []))
        sys.exit(f"replay: seed {options.seed}: {broken}\n{notes}")
    except MutationQuotaError as error:
        sys.exit(f"replay: {error}")
    except KeyboardInterrupt:
        sys.exit("replay: interrupted; nothing was written")
    console.print("any cut gives the same decisions", style="bold green")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.evidence.replay", description=__doc__)
    parser.add_argument(
        "--examples", type=int, default=_EXAMPLES, metavar="N", help="logs of each kind (default: %(default)s)"
    )
    parser.add_argument(
        "--seed",
        type=int,
        default=random.SystemRandom().randrange(2**32),
        metavar="S",
        help="of the logs (default: random)",
    )
    parser.add_argument("--out", type=Path, default=Path("docs/evidence"), metavar="FOLDER", help="for replay.md")
    return parser.parse_args()


def _run(options: argparse.Namespace, console: Console) -> None:
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="mutation-quota-") as folder:
        loaded = load_settings([f"storage.root={folder}", "spark.master=local[2]"], environment={})
        spark = start_session(loaded, "replay", Path(folder) / "spark.log")
        try:
            engine = SparkEngine(spark)
            tallies = {name: _check(name, engine, options.examples, options.seed) for name in PROPERTIES}
            console.print(tally_table(tallies).drawn())
            noticed = {name: _noticed(name, engine, options.seed) for name in MUTANTS}
        finally:
            stop_session(spark)
    console.print(mutant_table(noticed).drawn())
    missed = [name for name, logs in noticed.items() if logs is None]
    assert not missed, f"not noticed: {', '.join(missed)}"
    seconds = time.monotonic() - began
    write_page(options.out / "replay.md", page(Result(options.seed, tallies, noticed, seconds)), console)


def _check(name: str, engine: Engine, examples: int, chance: int) -> Counting:
    """Check a property on random logs, and count them."""
    check, strategy = PROPERTIES[name]
    counting = Counting(engine)

    @seed(chance)
    @_tries(examples)
    @given(strategy())
    def holds(case: tuple[Log, list[Run]]) -> None:
        counting.logs += 1
        check(counting, *case)

    holds()
    return counting


def _noticed(name: str, engine: Engine, chance: int) -> int | None:
    """Return the number of logs until a mutant was noticed, the last one through Spark too; None if it was not."""
    with mutated(name):
        for check, strategy in PROPERTIES.values():
            tried, case = _first_broken(check, strategy(), chance)
            if case is not None and _breaks(check, engine, *case):
                return tried
    return None


def _first_broken(
    check: Check, strategy: st.SearchStrategy[tuple[Log, list[Run]]], chance: int
) -> tuple[int, tuple[Log, list[Run]] | None]:
    """Return the number of logs that were tried without Spark, and the last of them if it breaks the property."""
    tried: list[tuple[Log, list[Run]]] = []
    broken: list[tuple[Log, list[Run]]] = []

    @seed(chance)
    @_tries(_TRIES)
    @given(strategy)
    def try_log(case: tuple[Log, list[Run]]) -> None:
        if not broken:
            tried.append(case)
            broken.extend([case] if _breaks(check, PlainEngine(), *case) else [])

    try_log()
    return len(tried), broken[0] if broken else None


def _breaks(check: Check, engine: Engine, log: Log, runs: list[Run]) -> bool:
    try:
        check(engine, log, runs)
    except AssertionError:
        return True
    return False


def _tries(count: int) -> settings:
    return settings(max_examples=count, deadline=None, database=None, suppress_health_check=list(HealthCheck))


if __name__ == "__main__":
    main()
