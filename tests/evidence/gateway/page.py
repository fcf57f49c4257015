"""The page docs/evidence/gateway/gateway-conformance.md and its tables."""

import platform
import time
from collections.abc import Sequence
from dataclasses import dataclass

from rich.markup import escape

from tests.evidence.gateway.comparison import Row
from tests.evidence.gateway.observation import Observation
from tests.evidence.gateway.program import EVERYTHING, Program
from tests.evidence.gateway.users import RATE, WINDOW_NUM
from tests.evidence.machine import load, machine
from tests.evidence.pages import NOTHING, Table, versions

_LONGEST = 150

_HOW = f"""\
The same programs run against a real broker that enforces `controller_mutation_rate` itself, and against
`mutation-quota gateway` with the complete job, `mutation-quota enforce` on Spark. Both sides use one broker, whose
clients authenticate by SASL and are authorized by ACLs. Each program has separate users on each side. The users of one
side have their quota on the broker, those of the other side in the quota topic and none on the broker. Each quota is
{RATE:g} mutation a second, with {WINDOW_NUM} windows (`controller.quota.window.num`, `quota.window_num`), so a bucket
holds {WINDOW_NUM * RATE:g} and is full when a case begins. A topic of 11 partitions puts it into debt for 8 s. The
gateway rewrites the brokers' addresses (`gateway.advertised_by=gateway`).

- **What a client sees** must be the same: outcomes, errors and their messages, and every field of the responses to
  hand-made requests. Ids, the names of the sides and the order of topics in a response (in Kafka that of a hash map)
  are not compared.
- **Throttle times** must result from the same debt. The two sides respond at different times after charging a request,
  so the comparison uses the time at which the debt is paid off, relative to the case's first request. Each side charged
  that first request between its sending and its response, and calculated the throttle time between the sending and the
  response of the throttled request. The two resulting ranges must meet within 2 ms, because Kafka rounds half up and
  the gateway rounds up.
- **The end of a request**, relative to the sending of the case's first request, may be at most 1.5 s earlier than at
  the broker. It may be at most 6 s later per request so far, because each request waits for its decision and the job
  decides in batches; mutes and waits are longer than that. For `kafka-topics.sh` it may be 15 s later, because each
  request starts a JVM, and earlier by any amount: whether a refused `--alter` waits for the end of the mute depends on
  which of its two calls reaches the broker first.
- **The topics at the end** must be the same, with the same partitions.
"""


@dataclass(frozen=True, slots=True)
class Played:
    """A program's rows, or why it was not run."""

    program: Program
    rows: Sequence[Row]
    missing: str = ""


@dataclass(frozen=True, slots=True)
class Result:
    """The results of a run."""

    played: Sequence[Played]
    kafka: str
    """Version of the broker and of its classes."""
    decisions: int
    """Number of decisions of the job."""

    @property
    def rows(self) -> list[Row]:
        """The rows of all programs."""
        return [row for each in self.played for row in each.rows]

    @property
    def mismatches(self) -> list[Row]:
        """The rows that differ, and not by a listed difference."""
        return [row for row in self.rows if row.mismatch]


def page(result: Result) -> str:
    """Return the page in Markdown."""
    own = machine()
    today = time.strftime("%Y-%m-%d", time.gmtime())
    return f"""\
# The gateway compared with a broker that enforces the quota itself

`make gateway-conformance` repeats this comparison and writes this page. Last run on {today}:
{len(result.rows)} observations on each side, {result.decisions} decisions by the job.

{_HOW}
## What differs

Only [intended differences](../../explanation/differences-from-kafka.md) were found; the table uses the names of that
page:

{difference_table(result).markdown()}

In addition, throttle times are rounded up. There were no other differences.

## What was run

{program_table(result).markdown()}

Kafka {result.kafka} (broker, AdminClient, `kafka-topics.sh`, Streams, Connect), {versions("pyspark")}, Python
{platform.python_version()}, {own["java"]}; {own["cores"]} cores, shared with other programs (load average over the
last minute: {load():.0f}). `make gateway-conformance` needs Go for franz-go, and installs kafka-streams; the table
above names programs that could not be run. `.venv/bin/python -m tests.evidence.gateway --quick` runs a short version.

## Observations

*Throttle* is the throttle time in ms, *end* the time in s since the first request of the case was sent; the first
column of each pair is the broker, the second the gateway.

{_sections(result)}"""


def _sections(result: Result) -> str:
    return "\n".join(
        f"### {each.program.name}\n\n{observation_table(each).markdown()}\n" for each in result.played if each.rows
    )


def program_table(result: Result) -> Table:
    """Return the programs, how they are run, and how many observations they gave."""
    rows = []
    for each in result.played:
        count = f"**not run**: {each.missing}" if each.missing else str(len(each.rows))
        version = each.program.version() if each.rows else ""
        about = each.program.about + (f" ({version})" if version else "")
        rows.append((each.program.name, about, count))
    return Table("programs", ("program", "setup", "observations"), tuple(rows), words=2)


def difference_table(result: Result) -> Table:
    """Return the listed differences with the outcomes on both sides."""
    rows = []
    for row in result.rows:
        if row.difference and row.direct and row.gateway and not row.mismatch:
            theirs, ours = (_with_throttle(each) for each in (row.direct, row.gateway))
            rows.append((row.difference.name, f"{row.program}: {row.case}: {row.step}", theirs, ours))
    return Table("intended differences", ("difference", "request", "the broker", "the gateway"), tuple(rows), words=4)


def _with_throttle(observation: Observation) -> str:
    throttle = f", throttle time {observation.throttle_ms:,} ms" if observation.throttle_ms else ""
    return _short(observation.seen) + throttle


def observation_table(played: Played) -> Table:
    """Return the observations of a program on both sides."""
    headings = ("case", "request", "seen by both", "throttle", "throttle", "end", "end")
    rows, last = [], ""
    for row in sorted(played.rows, key=lambda each: [row.case for row in played.rows].index(each.case)):
        rows.append((_cell(row.case if row.case != last else ""), *_cells(row)))
        last = row.case
    return Table(played.program.name, headings, tuple(rows), words=3)


def mismatch_table(result: Result) -> Table:
    """Return the observations that differ without a listed difference; for the terminal."""
    rows = tuple(
        (
            row.program,
            f"{row.case}: {row.step}",
            escape(row.mismatch),
            escape(row.direct.seen) if row.direct else NOTHING,
            escape(row.gateway.seen) if row.gateway else NOTHING,
        )
        for row in result.mismatches
    )
    return Table("mismatches", ("program", "request", "why", "the broker", "the gateway"), rows, words=5)


def _cells(row: Row) -> tuple[str, ...]:
    if row.direct is None or row.gateway is None or row.mismatch:
        seen = f"**differs**: {row.mismatch}"
    elif row.difference:
        seen = f"differs: {row.difference.name}"
    else:
        seen = _short(row.direct.seen)
    throttle = (_throttle(each) for each in (row.direct, row.gateway))
    ended = (
        f"{each / 1000:.1f}" if row.case != EVERYTHING else NOTHING for each in (row.direct_ended, row.gateway_ended)
    )
    return _cell(row.step), _cell(seen), *throttle, *ended


def _throttle(observation: Observation | None) -> str:
    return f"{observation.throttle_ms:,}" if observation and observation.throttle_ms is not None else NOTHING


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def _cell(text: str) -> str:
    """Return a text as a cell of Markdown."""
    return text.replace("|", "\\|").replace("{", "\\{").replace("<", "&lt;")
