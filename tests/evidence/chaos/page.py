"""The page docs/evidence/chaos.md and its tables."""

import platform

from tests.evidence.chaos.brokers import Failure
from tests.evidence.chaos.steps import AuditStep, Step
from tests.evidence.pages import Table, versions
from tests.support.chaos.verdict import BROKER_CHECKS, CHECKS, COPIES_DIFFER

_INTRO = """\
`make chaos` writes this page. It repeats the experiment, and fails if any figure that must be 0 is not.

The experiment runs a real broker and `mutation-quota enforce`, started as an operator starts it. For some kills the job
also runs the audit (`enforce.with_audit`), so that a kill hits both. Ten users send requests all the time: strict,
permissive and validate-only requests of one to four topics, and some invalid records. Their quotas are changed, removed
and set again. Spark passes its Python workers 50 records at a time instead of 1,000, so that kills also fall between
two parts of a batch. Unless stated otherwise, a kill sends SIGKILL to the driver and its JVM together, and the job is
restarted immediately.

- **At a step.** The JVM is paused (SIGSTOP) at varying moments until the checkpoint, the topics and the Delta log show
  the wanted step, and is then killed. The step is determined again from the files and topics that the job left;
  the tables below count that step. The job contains no hooks for this.
- **At random.** The job is killed at any moment; one in five of these kills falls into the first ten seconds after a
  start.
- **A part alone.** The job must continue, or exit with an error and continue after a restart.
"""

_CHECKS = """\
Afterwards the job finishes its backlog. A second job then answers the same request log with the same quota log in one
undisturbed run, with its own storage root, decisions topic and dead letters topic. All topics and tables are read
without the project's own readers, and these checks are made:

- Every record of the request topic has exactly one decision or one dead letter, identified by its source. The
  at-least-once sink may write copies; they must be byte-identical.
- Every answer is byte-identical to the answer of the undisturbed run.
- The Delta tables hold each decision, dead letter and quota change once, and every field equals the one on the topic.
- The tokens before and after each decision, and the topics that it admits, equal those of a reference implementation
  that replays the two logs in exact fractions and without the project's code. A bucket that a restart had refilled
  would be found here.
"""

_BROKERS = """\
The next experiment runs a cluster of three nodes, with three replicas of each partition and `min.insync.replicas=2`.
One job enforces and audits, and requests are sent all the time. The nodes are killed (SIGKILL) and restarted one after
the other, once in each round together with the job. The leaders of the requests, the quotas and the decisions are also
cut off: their process is stopped (SIGSTOP), which breaks no connection, until the partitions have other leaders; the
process then continues as if it were still the leader. While a leader is stopped, no quota is changed, because requests
may become visible before a quota change during that time, as the [guarantees](../explanation/guarantees.md) explain.
Afterwards the checks above are made, and each acknowledged record must be in its log once, at the offset that the
acknowledgement names. (librdkafka does not know the offset of a record whose retry the broker rejected as a duplicate.)
"""

_STORE = """\
In the next experiment the storage root is in S3, on a server on the same machine (moto). The job enforces and audits,
maintains its tables every two seconds, and is killed at random moments, some of them while it starts. Afterwards the
checks above are made.
"""

_SURROUNDINGS = """\
Full disks and a broker that is unavailable for minutes are tested on a separate deployment with its own requests. After
each failure, disk space is freed and the job is restarted; every request must then be decided, charged and stored once.
Other faults around the jobs (incomplete checkpoints, foreign tables, unreachable quotas) are covered by `make test`.
"""


def figures_table(tally, verdict, seconds):
    """Return the figures."""
    rows = [
        ("kills", tally.kills),
        ("of these at a step, at random, of one part", f"{tally.at_steps}, {tally.random}, {len(tally.parts)}"),
        ("minutes", round(seconds / 60)),
        ("start until the first committed batch, median, s", f"{_median(tally.starts):.1f}"),
        ("records on the request topic", verdict.requests),
        ("decisions", verdict.decisions),
        ("topics refused by them", verdict.refused),
        ("dead letters", verdict.dead_letters),
        ("quota changes", verdict.quota_changes),
        (
            "byte-identical copies of answers, written after a kill",
            verdict.copies - verdict.wrong[COPIES_DIFFER],
        ),
        *((f"**{check}**", f"**{verdict.wrong[check]}**") for check in CHECKS),
    ]
    return Table("figures", ("", "count"), tuple((what, _shown(count)) for what, count in rows), words=1)


def step_tables(tally):
    """Yield the kills by step of a batch, of the enforcing query and of the audit."""
    for title, steps, found in (("enforce", Step, tally.steps), ("audit", AuditStep, tally.audit_steps)):
        rows = tuple((step.value, str(found[step]), _missed(tally.missed[step])) for step in steps)
        yield Table(f"kills by step, {title}", (f"step of a batch, {title}", "kills", "not reached"), rows, 1)


def part_table(tally):
    """Return the outcome of each kill of a part."""
    rows = tuple((part.value, became) for part, became in tally.parts.items())
    return Table("a part alone", ("killed", "outcome"), rows, words=2)


def surroundings_table(surroundings):
    """Return the outcome of full disks and of an absent broker."""
    rows = (
        ("a disk filled up to the last few KB, while the job enforced and audited", f"{surroundings.fills} times"),
        ("a job exited with a line that says to free disk space", f"{surroundings.stops} times"),
        ("the broker was unavailable until enforce exited with a line that says so", f"{surroundings.outage:.0f} s"),
        (
            "**decisions lost, debts forgiven or other exits, once space and broker were back**",
            f"**{len(surroundings.wrong)}**",
        ),
    )
    return Table("around the jobs", ("fault", "outcome"), rows, words=1)


def brokers_table(tally, verdict):
    """Return the failures of brokers and their outcomes."""
    rows = [
        *((failure.value, tally.failures[failure]) for failure in Failure),
        ("from a failure until all partitions had other leaders, median, s", f"{_median(tally.elections):.1f}"),
        ("the job exited because of it and continued after a restart", len(tally.ended)),
        ("records on the request topic", verdict.requests),
        ("decisions", verdict.decisions),
        ("dead letters", verdict.dead_letters),
        ("quota changes", verdict.quota_changes),
        *((f"**{check}**", f"**{verdict.wrong[check]}**") for check in BROKER_CHECKS),
    ]
    return Table(
        "brokers that fail",
        ("failures of one of three brokers", "count"),
        tuple((what, _shown(n)) for what, n in rows),
        1,
    )


def store_table(tally, verdict):
    """Return the kills of the job on S3 and their outcomes."""
    rows = [
        ("kills while the job started", tally.starting),
        ("kills after a batch", tally.running),
        ("compactions of the table of decisions meanwhile", tally.compactions),
        ("start until the first committed batch, median, s", f"{_median(tally.starts):.1f}"),
        ("records on the request topic", verdict.requests),
        ("decisions", verdict.decisions),
        ("dead letters", verdict.dead_letters),
        ("quota changes", verdict.quota_changes),
        *((f"**{check}**", f"**{verdict.wrong[check]}**") for check in BROKER_CHECKS),
    ]
    return Table("storage root in S3", ("kills on S3", "count"), tuple((what, _shown(n)) for what, n in rows), 1)


def page(kills, brokers, store, surroundings, seconds):
    """Return the page in Markdown.

    Args:
        kills: The tally and the verdict of the kills of the job.
        brokers: Those of the failures of brokers.
        store: Those of the kills on S3.
        surroundings: The failures around the jobs.
        seconds: The duration of all.
    """
    tally, verdict = kills
    steps = "\n\n".join(table.markdown() for table in step_tables(tally))
    return f"""\
# Chaos

{_INTRO}
{_CHECKS}
{figures_table(tally, verdict, seconds).markdown()}

The tables count kills by the step of the running batch. A kill of a job that also runs the audit counts in both tables.

{steps}

{part_table(tally).markdown()}

{_BROKERS}
{brokers_table(*brokers).markdown()}

{_STORE}
{store_table(*store).markdown()}

{_SURROUNDINGS}
{surroundings_table(surroundings).markdown()}

{versions("pyspark", "delta-spark", "confluent-kafka")}, Python {platform.python_version()}.
"""


def _median(values):
    return sorted(values)[len(values) // 2] if values else 0.0


def _missed(count):
    return str(count) if count else ""


def _shown(count):
    return f"{count:,}" if isinstance(count, int) else count
