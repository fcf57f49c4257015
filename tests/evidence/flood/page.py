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
    corrected: int
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
        audited = self.audited == (self.sent + self.corrected, self.found.dead)
        return self.found.is_sound and decided and audited


def phase_table(phases: Sequence[Phase]) -> Table:
    """Return the phases in order; the quiet ones are one row, their median and range."""
    quiet = [phase for phase in phases if phase.name == _QUIET]
    usual = median(phase.wait(0.5) for phase in quiet)
    rows = [("quiet, median of all phases", "", "", *_quiet_cells(quiet), "1.0", "")]
    rows += [
        (
            phase.name,
            f"{phase.invalid:,}",
            f"{phase.invalid / phase.seconds:,.0f} ({phase.invalid_bytes / phase.seconds / 1e6:,.1f} MB)",
            f"{len(phase.waits):,}",
            *(milliseconds(phase.wait(share)) for share in (0.5, 0.9, 0.99)),
            f"{phase.wait(0.5) / usual:.1f}",
            f"{phase.caught_up:.1f}",
        )
        for phase in phases
        if phase.name != _QUIET and phase.waits
    ]
    headings = (
        "invalid records",
        "number",
        "per second",
        "valid requests",
        "p50, ms",
        "p90",
        "p99",
        "p50 / quiet p50",
        "caught up, s",
    )
    return Table("valid requests from sending to decision", headings, tuple(rows), words=1)


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
        ("valid requests, of these decided", f"{result.sent:,}, {found.decided:,}"),
        ("invalid records, of these dead letters", f"{sum(each.invalid for each in result.phases):,}, {found.dead:,}"),
        ("without an answer", f"{len(found.lost):,}"),
        ("answered twice", f"{found.doubled:,}"),
        ("answered incorrectly", f"{len(found.wrong):,}"),
        (
            "dead letters fixed and resent, of these decided",
            f"{result.corrected}, {result.corrected - result.undecided}",
        ),
        ("rows in Delta: decisions, dead letters", f"{result.audited[0]:,}, {result.audited[1]:,}"),
        ("time until the audit had caught up", f"{result.audit_seconds:.0f} s"),
    )
    return Table("outcome", ("", "count"), rows, words=1)


def page(result: Result) -> str:
    """Return the page in Markdown."""
    load = os.getloadavg()[2]
    return f"""\
# A flood of invalid records

`make flood` repeats this experiment and writes this page. A real broker, `enforce` and `audit` run as processes with
their default settings. Ten users send 100 valid requests a second, and the time from producing a request to consuming
its decision is measured. Quiet phases alternate with phases in which another producer sends invalid records to the
request topic:

- "small": random bytes, truncated JSON, nested brackets, and valid JSON with wrong types or nulls, in turn
- keys of 20 KB
- records of 100 KB
- records of about 1 MB: text, zeros, and some larger than `limits.max_request_bytes`; and text that its producer
  compresses a thousandfold

Compare the ratios rather than the times. Valid requests queue behind the invalid records that arrived before them, so
at full speed they wait until those have been processed. "Caught up" is the time from the last invalid record until no
valid request was waiting.

{phase_table(result.phases).markdown()}

{os.cpu_count()} cores, shared with other programs (load average over the last 15 minutes: {load:.0f}), pyspark
{version("pyspark")}, Python {platform.python_version()}, {result.settings.spark.driver_memory} of heap and
{result.settings.spark.worker_memory} per Python worker.

{sum_table(result).markdown()}

A sample of the dead letters was listed, shown, fixed and resent with `mutation-quota dead-letters`, as an operator
would.
"""
