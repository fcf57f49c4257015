"""A flood of invalid records on the request topic: how long it delays good requests, and whether anything is lost."""

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

from deltalake import DeltaTable
from rich.console import Console

from jobs.sandbox.broker import embedded_broker, with_plaintext_cluster
from quota.errors import MutationQuotaError
from quota.kafka.quotas.writer import write_record
from quota.kafka.topics.preparation import prepare_topics
from quota.records.entity import QuotaEntity
from quota.records.quota_log import QuotaRecord
from quota.settings import Settings, load_settings
from tests.evidence.flood.answered import Answered, answered
from tests.evidence.flood.course import caught_up, floods, run_course
from tests.evidence.flood.good import Good
from tests.evidence.flood.page import Result, page, phase_table, sum_table
from tests.evidence.flood.programs import running
from tests.evidence.flood.resend import resend_sample
from tests.evidence.pages import terminal, write_page
from tests.support.deployment import make_deployment

_COLUMNS = 140
_RATE = 100.0
_WARM_REQUESTS = 500
_SAMPLE = 5
_TIMEOUT_SECONDS = 600


def main() -> None:
    """Run the program; exit 1 if anything was lost, duplicated or wrong."""
    options = _options()
    console = terminal(_COLUMNS)
    try:
        result = _run(options, console)
    except (MutationQuotaError, subprocess.CalledProcessError) as error:
        sys.exit(f"flood: {error}")
    except KeyboardInterrupt:
        sys.exit("flood: interrupted; nothing was written")
    console.print(sum_table(result).drawn())
    if not result.is_sound:
        sys.exit(f"flood: {result.found}")
    if not options.quick:
        write_page(options.out / "flood.md", page(result), console)
    console.print("nothing was lost", style="bold green")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.evidence.flood", description=__doc__)
    parser.add_argument("--seconds", type=float, default=10.0, help="of each phase at most (default: %(default)s)")
    parser.add_argument(
        "--records", type=int, default=100_000, help="invalid ones of each phase at most (default: %(default)s)"
    )
    parser.add_argument("--quick", action="store_true", help="short phases, without the page")
    parser.add_argument("--out", type=Path, default=Path("docs/evidence"), metavar="FOLDER", help="for flood.md")
    parser.add_argument("--set", action="append", default=[], metavar="SECTION.KEY=VALUE", help="a setting of the jobs")
    options = parser.parse_args()
    if options.quick:
        options.seconds, options.records = min(options.seconds, 4.0), min(options.records, 20_000)
    return options


def _run(options: argparse.Namespace, console: Console) -> Result:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="mutation-quota-")))
        settings = load_settings([f"storage.root={folder}", *options.set], environment={})
        broker = stack.enter_context(embedded_broker(settings, port=0))
        settings = make_deployment(with_plaintext_cluster(settings, broker.address), "flood", folder)
        prepare_topics(settings)
        write_record(settings, QuotaRecord(QuotaEntity(None), 1000.0))
        given = [part for each in options.set for part in ("--set", each)]
        enforce = stack.enter_context(running(settings, folder / "enforce.log", "enforce", *given))
        audit = stack.enter_context(
            running(settings, folder / "audit.log", "audit", *given, "--set", "audit.trigger_seconds=2")
        )

        def check() -> None:
            for name, process in (("enforce", enforce), ("audit", audit)):
                if process.poll() is not None:
                    output = (folder / f"{name}.log").read_text(errors="replace")
                    raise MutationQuotaError(f"{name} has ended: {output[-2000:]}")

        with Good(settings, _RATE) as good:
            console.print("warming up")
            while good.sent < _WARM_REQUESTS:
                time.sleep(1)
            caught_up(good, check, time.monotonic())
            phases = []
            course = floods(options.seconds, options.records)
            for phase in run_course(settings, good, course, options.seconds, check):
                console.print(
                    f"  {phase.name}: {phase.wait(0.5) * 1000:,.0f} ms, caught up after {phase.caught_up:.1f} s"
                )
                phases.append(phase)
            good.stop_sending()
            caught_up(good, check, time.monotonic())
            console.print(phase_table(phases).drawn())
            found = _settled(settings, good, check)
            console.print("fixing dead letters and sending them again")
            corrected = resend_sample(settings, folder, _SAMPLE)
            undecided = _undecided(good, corrected, check)
            began = time.monotonic()
            audited = _audited(settings, (found.decided + len(corrected), found.dead), check)
            return Result(
                phases, found, good.sent, len(corrected), undecided, audited, time.monotonic() - began, settings
            )


def _settled(settings: Settings, good: Good, check: Callable[[], None]) -> Answered:
    """Return the comparison once the job has processed everything, or the time is over."""
    deadline = time.monotonic() + _TIMEOUT_SECONDS
    while True:
        check()
        found = answered(settings, good.positions)
        if not found.lost or time.monotonic() > deadline:
            return found
        time.sleep(2)


def _undecided(good: Good, corrected: Sequence[str], check: Callable[[], None]) -> int:
    """Return the number of these requests that have no decision in time."""
    deadline = time.monotonic() + _TIMEOUT_SECONDS
    while (left := len(set(corrected) - good.others)) and time.monotonic() < deadline:
        check()
        time.sleep(1)
    return left


def _audited(settings: Settings, total: tuple[int, int], check: Callable[[], None]) -> tuple[int, int]:
    """Return the rows of the tables decisions and dead_letters once the audit is complete, or the time is over."""
    deadline = time.monotonic() + _TIMEOUT_SECONDS
    while True:
        check()
        tables = [DeltaTable(settings.storage.table(name)) for name in ("decisions", "dead_letters")]
        decisions, letters = (table.to_pyarrow_dataset().count_rows() for table in tables)
        if (decisions >= total[0] and letters >= total[1]) or time.monotonic() > deadline:
            return decisions, letters
        time.sleep(2)


if __name__ == "__main__":
    main()
