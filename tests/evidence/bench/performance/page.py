"""The page docs/evidence/performance.md, its tables, and the figures in JSON."""

import json
from collections.abc import Mapping, Sequence

from tests.evidence.bench.performance.figure import Figure
from tests.evidence.pages import NOTHING, Table

_TITLES = {
    "latency": "Latency",
    "throughput": "Throughput",
    "state": "Size of the state",
    "decision": "The decision alone",
    "many keys": "Many active keys",
    "audit": "The audit",
    "earlier": "Beside an earlier commit",
    "scale out": "Scale out",
    "what if": "What if",
}

_TEXTS = {
    "latency": """\
From produce to consume of the decision, over 50 users, enforcing and auditing in one session, beside a stateless
Kafka-to-Kafka query that hands the same records on as they are. A minute of load warms up, and still each round is a
little quicker than the one before: a JVM compiles for some minutes, and begins at two to three times these. *Empty
function*: applyInPandasWithState as PySpark has it, with the same schemas, whose function hands each record back. Each
time at 200 requests/s lasts from one batch of the audit to the next; at the other rates half as long, so that the
slowest there hang on where the batch falls, and at 10 requests/s are one of fifty.""",
    "throughput": """\
A backlog of waiting requests in batches of 100,000. *Empty function*: applyInPandasWithState as PySpark has it, with
the same schemas, whose function hands each record back and writes the same state each time; enforcing goes past
PySpark's pandas ([0019](../decisions/programs/0019-keyed-stages-without-pandas.md)). A round before warms up. The
first batch of a drain does not count, and the others do for two and a half seconds: one of enforcing, some of the
pass-through, which alone may take records from Kafka without a bound on their memory. Of 100,000 keys the buckets are
in the store before, and each batch counts that has them; of so many there are two rounds, of fewer three.""",
    "state": """\
Batches of 1,000 requests of 1,000 users, who lie far apart in a store of so many buckets; the sizes take turns,
behind batches that warm up, and each batch counts as a run. On disk is what the checkpoint's state holds: twenty
bytes a bucket where that is changes alone, up to a hundred where snapshots of them have been uploaded meanwhile.""",
    "decision": """\
In plain Python in one process, by processor time, for 50 users. A library's hit says yes or no. The verdict is that
with the time to wait, KIP-599's debt, quotas that change, and topic by topic; the whole decision is the record that
explains itself. Its part of a request is of the processor time that a request takes in a backlog on all cores.""",
    "many keys": """\
The same decision with buckets kept otherwise: by 32 hash groups with one binary state each, through pandas, and by
transformWithState.""",
    "audit": """\
A backlog of decisions into Delta, in batches of 50,000, beside enforcing a backlog of as many requests of 1,000 users
in batches of 50,000; the first batch of each does not count, nor does the first round. Then queries of a table of ten
days. How often there is a batch is the setting.""",
    "earlier": """\
The jobs as an operator starts them, each with a JVM of its own, by the code of today and by that of a commit before
the audit wrote its tables itself. A start lasts until 50 waiting requests are decided; the sides take turns, and the
first round does not count. The two audits run at once and write the same decisions, 2,000 a batch, as at 200 requests/s
and a trigger of 10 s; thirty batches warm up, and a run is ten more. Where a start goes, and what shortens it:
[operations](../how-to/operations.md#starts), [0015](../decisions/programs/0015-what-a-batch-costs.md).""",
    "scale out": """\
A tenth of that backlog in six batches on Spark standalone with executors of one core each, all of it, driver and
broker too, on one machine: with no more cores than that has, a second worker adds none. One drain each, one after the
other and not yet warm, of whose batches the later half counts.""",
    "what if": """\
Audited decisions judged again, beside enforcing and beside auditing the same; Spark's start is not in it.""",
}


_LIMITS = """\
## Where a goal is not met

By profiles of warm jobs on two cores of half their usual speed; more in
[0015](../decisions/programs/0015-what-a-batch-costs.md).

- **p50 at 200 requests/s.** Of 218 ms of processor time that a batch takes, enforcing and auditing, our Python has 14.
  The engine has the rest: compiling 46, planning 38, scheduling 25, Arrow 18, the shuffle 14, the collector 11, RocksDB
  8, checkpoint and Kafka's clients 10, the rest of the JVM 10, and the broker 21. The empty function without an audit
  has about the same p50.
- **1,000 active keys.** A request takes about 25 µs of the JVM, half of them compiling, 22 of Python (14 of these for
  the decision and its record of 740 bytes) and 10 of the broker. The empty function hands 150 bytes back.
- **100,000 active keys.** 4.6 to 5.3 times the empty function, from run to run.
- **The start.** With a class archive 1.6 of two cores are busy from the first second to the last, three quarters of
  that with Java that is interpreted or being compiled: 1.6 s to the JVM, 2.3 to the session, 1.2 to the query, 5 to the
  first batch.
"""
"""What profiles have shown; they are taken by hand, and the figures in it are not measured anew."""


def table(section: str, figures: Sequence[Figure]) -> Table:
    """Return the figures of a section."""
    rows = tuple(_row(each) for each in figures)
    return Table(section, ("", "unit", "median", "beside", "median", "ratio", "goal", "noise"), rows, words=2)


def sections(figures: Sequence[Figure]) -> dict[str, list[Figure]]:
    """Return figures by section, in the order of the page."""
    found = {name: [each for each in figures if each.section == name] for name in _TITLES}
    return {name: of_section for name, of_section in found.items() if of_section}


def page(figures: Sequence[Figure], on: Mapping[str, str | int | float], seconds: float) -> str:
    """Return the page in Markdown."""
    parts = [
        f"## {_TITLES[name]}\n\n{_TEXTS[name]}\n\n{table(name, of_section).markdown()}\n"
        for name, of_section in sections(figures).items()
    ]
    goals = [each for each in figures if each.is_met is not None]
    met = sum(bool(each.is_met) for each in goals)
    versions = ", ".join(f"{name} {value}" for name, value in on.items())
    return f"""\
# Performance

Written by `make bench`, which measures it again; the same figures for programs are in
[performance.json](performance.json). Figures stand beside their limits, taken in the same run, the two alternating:
the ratio of the medians is what counts. *Noise* is the largest run by the smallest, of the noisier side. What was
tried and what it gave: [decisions/0015](../decisions/programs/0015-what-a-batch-costs.md).

![latency, throughput and size of the state](performance.svg)

{met} of {len(goals)} goals met; [where one is not](#where-a-goal-is-not-met) a profile says why.

{chr(10).join(parts)}
{_LIMITS}
{seconds / 60:.0f} minutes on: {versions}.
"""


def as_json(figures: Sequence[Figure], on: Mapping[str, str | int | float]) -> str:
    """Return the figures in JSON, each with the machine and the versions."""
    return json.dumps([{**each.as_json(), "on": dict(on)} for each in figures], indent=1) + "\n"


def _row(figure: Figure) -> tuple[str, ...]:
    ratio, limit = figure.ratio, figure.limit_median
    goal = NOTHING if figure.goal is None else f"{figure.goal} {'met' if figure.is_met else '**not met**'}"
    return (
        figure.what,
        figure.unit,
        _number(figure.median),
        figure.limit or NOTHING,
        NOTHING if limit is None else _number(limit),
        NOTHING if ratio is None else f"{ratio:.2f}",
        goal,
        f"{figure.noise:.1f}" if max(len(figure.runs), len(figure.limit_runs)) > 1 else NOTHING,
    )


def _number(value: float) -> str:
    """Return a number with at least three digits."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
