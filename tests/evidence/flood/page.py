"""The page docs/evidence/flood.md and its tables."""

import os
import platform
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from statistics import median

from quota.settings import Settings
from tests.evidence.flood.answered import Answered
from tests.evidence.flood.course import Phase
from tests.evidence.pages import Table, milliseconds

_QUIET = "quiet"


@dataclass(frozen=True, slots=True)
class Result:
    """The results of a run of the program."""

    phases: Sequence[Phase]
    found: Answered
    sent: int
    """Number of good requests."""
    mended: int
    """Number of dead letters that were fixed and sent again."""
    undecided: int
    """Number of these without a decision."""
    audited: tuple[int, int]
    """Rows of the tables decisions and dead_letters."""
    audit_seconds: float
    """Time that the audit took after the job, seconds."""
    settings: Settings

    @property
    def is_sound(self) -> bool:
        """Whether every record has one answer, which is in Delta."""
        decided = self.found.decided == self.sent and not self.undecided
        audited = self.audited == (self.sent + self.mended, self.found.dead)
        return self.found.is_sound and decided and audited


def phase_table(phases: Sequence[Phase]) -> Table:
    """Return the phases in order; the quiet ones are one row, their median and range."""
    quiet = [phase for phase in phases if phase.name == _QUIET]
    usual = median(phase.wait(0.5) for phase in quiet)
    rows = [("quiet, median of phases", "", "", *_quiet_cells(quiet), "1.0", "")]
    rows += [
        (
            phase.name,
            f"{phase.garbage:,}",
            f"{phase.garbage / phase.seconds:,.0f} ({phase.garbage_bytes / phase.seconds / 1e6:,.1f} MB)",
            f"{len(phase.waits):,}",
            *(milliseconds(phase.wait(share)) for share in (0.5, 0.9, 0.99)),
            f"{phase.wait(0.5) / usual:.1f}",
            f"{phase.caught_up:.1f}",
        )
        for phase in phases
        if phase.name != _QUIET and phase.waits
    ]
    headings = ("garbage", "records", "a second", "good", "p50, ms", "p90", "p99", "p50 of quiet's", "caught up, s")
    return Table("good requests from sending to decision", headings, tuple(rows), words=1)


def _quiet_cells(quiet: Sequence[Phase]) -> tuple[str, ...]:
    cells = []
    for share in (0.5, 0.9, 0.99):
        waits = sorted(phase.wait(share) for phase in quiet)
        cells.append(f"{milliseconds(median(waits))} ({milliseconds(waits[0])} to {milliseconds(waits[-1])})")
    return (f"{sum(len(phase.waits) for phase in quiet):,}", *cells)


def sum_table(result: Result) -> Table:
    """Return the outcome of all records."""
    found = result.found
    rows = (
        ("good requests, of these decided", f"{result.sent:,}, {found.decided:,}"),
        ("bad records, of these dead letters", f"{sum(each.garbage for each in result.phases):,}, {found.dead:,}"),
        ("without an answer", f"{len(found.lost):,}"),
        ("answered twice", f"{found.doubled:,}"),
        ("answered wrongly", f"{len(found.wrong):,}"),
        ("mended and sent again, of these decided", f"{result.mended}, {result.mended - result.undecided}"),
        ("kept in Delta: decisions, dead letters", f"{result.audited[0]:,}, {result.audited[1]:,}"),
        ("the audit was done after another", f"{result.audit_seconds:.0f} s"),
    )
    return Table("what became of them", ("", "count"), rows, words=1)


def page(result: Result) -> str:
    """Return the page in Markdown."""
    load = os.getloadavg()[2]
    return f"""\
# A flood of garbage

Written by `make flood`, which does it again. A real broker, `enforce` and `audit` as processes with their default
settings; 100 good requests a second, of ten users, from produce to consume; and in turns a quiet phase and one in
which another producer pours in what is no request: random bytes, half JSON, nested brackets, right JSON with wrong
types and nulls in turns ("small"), keys of 20 KB, records of 100 KB, and of about 1 MB (text, zeros, and some over
`limits.max_request_bytes`; and text that its producer compresses a thousandfold). What counts are the ratios; a
phase's good requests stand behind the garbage that came before them, so at full speed they wait for what is not worked
off yet. "Caught up" is how long it took from the last bad record until no good request waited.

{phase_table(result.phases).markdown()}

{os.cpu_count()} cores that other programs used as well (load of the last 15 minutes {load:.0f}), pyspark
{version("pyspark")}, Python {platform.python_version()}, {result.settings.spark.driver_memory} of heap and
{result.settings.spark.worker_memory} a worker.

{sum_table(result).markdown()}

The sample is listed, shown, mended and sent by `mutation-quota dead-letters`, as an operator does it.
"""
