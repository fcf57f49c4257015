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
    "earlier": "Compared with an earlier commit",
    "scale out": "Scale out",
    "what if": "What if",
}

_TEXTS = {
    "latency": """\
The time from producing a request to consuming its decision, for 50 users, with enforcing and auditing in one session.
It is compared with a stateless Kafka-to-Kafka query that forwards the same records unchanged. One minute of load warms
up the jobs. Each round is still slightly faster than the one before, because a JVM compiles for several minutes; a cold
JVM takes two to three times as long. *Empty function*: PySpark's own applyInPandasWithState with the same schemas and a
function that returns each record. A measurement at 200 requests/s lasts from one batch of the audit to the next; at the
other rates it lasts half as long. Their slowest requests therefore depend on when the audit's batch runs, and p99 at 10
requests/s is one request of fifty.""",
    "throughput": """\
A backlog of waiting requests is processed in batches of 100,000. *Empty function*: PySpark's own applyInPandasWithState
with the same schemas and a function that returns each record and writes the same state each time. Enforcing does not
use PySpark's pandas path ([0019](../decisions/programs/0019-keyed-stages-without-pandas.md)). One round warms up. The
first batch of each drain does not count; the batches of the following two and a half seconds do: one batch of
enforcing, several of the pass-through. Only the pass-through may read records from Kafka without a bound on their
memory. With 100,000 keys the buckets are in the store beforehand, every batch with these keys counts, and there are two
rounds; with fewer keys there are three.""",
    "state": """\
Batches of 1,000 requests of 1,000 users whose buckets are far apart in a store of the given number of buckets. The
sizes alternate, after batches that warm up, and each batch counts as a run. *On disk* is the size of the state in the
checkpoint: twenty bytes per bucket while it consists of changelogs alone, up to a hundred once snapshots have been
uploaded, too.""",
    "decision": """\
Plain Python in one process, measured in processor time, for 50 users. A hit of a rate limiting library answers yes or
no. The verdict of a bucket also has a throttle time, KIP-599's debt and a result for each topic, and respects quota
changes. The whole decision is the record with its explanation. Its share of a request relates to the processor time
that a request of a backlog takes on all cores.""",
    "many keys": """\
The same decision with buckets kept otherwise: by 32 hash groups with one binary state each, through pandas, and by
transformWithState.""",
    "audit": """\
A backlog of decisions is written to Delta in batches of 50,000, compared with enforcing a backlog of as many requests
of 1,000 users in batches of 50,000. The first batch of each and the first round do not count. The queries read a table
of ten days. The number of batches per minute follows from the trigger setting.""",
    "earlier": """\
The jobs are started as an operator starts them, each with its own JVM, from the current code and from a commit before
the audit wrote its tables itself. A start lasts until 50 waiting requests are decided; the two sides alternate, and the
first round does not count. The two audits run at the same time and write the same decisions, 2,000 per batch, as at 200
requests/s with a trigger of 10 s; thirty batches warm up, and a run is the following ten.
[Starts](../how-to/operations/jobs.md#starts) and [0015](../decisions/programs/0015-what-a-batch-costs.md) explain the
parts of a start and ways to shorten it.""",
    "scale out": """\
A tenth of that backlog, in six batches, on Spark standalone with executors of one core each. Everything, including
driver and broker, runs on one machine, so a second worker adds no cores. Each side drains the backlog once, one after
the other and without a warm-up; the later half of the batches counts.""",
    "what if": """\
Audited decisions are decided again by a backtest, compared with enforcing and with auditing them. The start of Spark
does not count.""",
}


_LIMITS = """\
## Where a goal is not met

These figures come from profiles of warm jobs on two cores at half their usual speed;
[0015](../decisions/programs/0015-what-a-batch-costs.md) has more of them.

- **p50 at 200 requests/s.** With enforcing and auditing, a batch takes 218 ms of processor time, of which the project's
  Python takes 14 ms. The engine takes the rest: compilation 46 ms, planning 38, scheduling 25, Arrow 18, the shuffle
  14, garbage collection 11, RocksDB 8, checkpoint and Kafka's clients 10, the rest of the JVM 10, and the broker 21.
  The empty function without an audit has about the same p50.
- **1,000 active keys.** A request takes about 25 µs in the JVM, half of that for compilation, 22 µs in Python (14 µs of
  that for the decision and its record of 740 bytes) and 10 µs in the broker. The empty function returns 150 bytes.
- **100,000 active keys.** The ratio to the empty function varies between 4.6 and 5.3 from run to run.
- **The start.** With a class archive, 1.6 of two cores are busy throughout, three quarters of that time with Java that
  is interpreted or being compiled: 1.6 s until the JVM runs, 2.3 s for the session, 1.2 s for the query, and 5 s for
  the first batch.
"""
"""The results of profiles, which are taken by hand: `make bench` does not update these figures."""


def table(section: str, figures: Sequence[Figure]) -> Table:
    """Return the figures of a section."""
    rows = tuple(_row(each) for each in figures)
    return Table(section, ("", "unit", "median", "compared with", "median", "ratio", "goal", "noise"), rows, words=2)


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

`make bench` repeats these measurements and writes this page; [performance.json](performance.json) has the same figures
for programs. Each figure is compared with a limit that was measured in the same run, with the two sides alternating.
Use the ratio of the medians. *Noise* is the largest run divided by the smallest, for the noisier of the two sides.
[Decision 0015](../decisions/programs/0015-what-a-batch-costs.md) lists the optimizations that were tried, with their
results.

{met} of {len(goals)} goals met; profiles explain [the goals that are not met](#where-a-goal-is-not-met).

{chr(10).join(parts)}
{_LIMITS}
{seconds / 60:.0f} minutes, on: {versions}.
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
