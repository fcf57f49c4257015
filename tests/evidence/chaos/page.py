"""The page docs/evidence/chaos.md and its tables."""

import platform

from tests.evidence.chaos.brokers import Failure
from tests.evidence.chaos.steps import AuditStep, Step
from tests.evidence.chaos.verdict import BROKER_CHECKS, CHECKS
from tests.evidence.pages import Table, versions

_INTRO = """\
Written by `make chaos`, which does it again and fails if any figure that must be 0 is not.

A real broker, and `mutation-quota enforce`, started as an operator starts it; for some of the kills with the audit in
the same process (`enforce.with_audit`), so that a kill hits both. Requests of ten users flow all the time, strict and
permissive, of one to four topics, validate-only ones, records that are none; and their quotas change, are removed and
set again. Each kill is SIGKILL, to the driver and its JVM at once where nothing else is said, and the job is started
again at once.

- **At a step.** The JVM is frozen (SIGSTOP) at varying moments until the checkpoint, the topics and the Delta log say
  that the wanted step is met, and is killed as it stands there. Where it stood is read again afterwards, from what it
  left, and that is what is counted below. No hook in the job helps.
- **At random.** Any moment, one in five of them in the first ten seconds of a start.
- **A part alone.** It must go on, or end with an error and go on when it is started again.
"""

_CHECKS = """\
Afterwards the job is let finish, and another one answers the same request log by the same quota log once more,
undisturbed: in one go, with a storage root, a decisions and a dead letters topic of its own. Then all of the topics and
tables is read without the project's own readers.

- Every record of the request topic has one decision or one dead letter, by its source; copies of it, which the
  at-least-once sink may write, are the same to the byte.
- Each is, to the byte, what the undisturbed run wrote.
- The Delta tables hold each decision, dead letter and quota change once, with every field as the topic has it.
- The tokens before and after each decision, and which topics it admits, are those of a reference fold over the two
  logs, in fractions and without the project's code. A bucket that a restart had filled would show there.
"""

_BROKERS = """\
A cluster of three nodes, three replicas of each partition and `min.insync.replicas=2`, with a job that enforces and
audits and requests that flow all the time. The nodes are killed (SIGKILL) one after the other and started again, and
the leaders of the requests, the quotas and the decisions are cut off: their process is stopped (SIGSTOP), so that no
connection breaks, until the partitions have other leaders, and then goes on as if it still were the leader. From a
failure until there are other leaders no quota changes, since requests may be visible before a change then, as the
[guarantees](../explanation/guarantees.md) say. Afterwards the same is compared as above, and the two logs hold each
record that was acknowledged, where it was, and once.
"""

_SURROUNDINGS = """\
Disks that fill up and a broker that is away for minutes are another deployment's, with its own requests: after each,
the rest is freed and the job started again, and all that was asked must be decided, charged and kept once. What else
can be wrong around the jobs (half a checkpoint, foreign tables, unreachable quotas) is tried by `make test`.
"""


def figures_table(tally, verdict, seconds):
    """Return the figures."""
    rows = [
        ("kills", tally.kills),
        ("of these at a step, at random, of a part", f"{tally.at_steps}, {tally.random}, {len(tally.parts)}"),
        ("minutes", round(seconds / 60)),
        ("start until the first batch is committed, median s", f"{_median(tally.starts):.1f}"),
        ("records on the request topic", verdict.requests),
        ("decisions", verdict.decisions),
        ("topics refused by them", verdict.refused),
        ("dead letters", verdict.dead_letters),
        ("quota changes", verdict.quota_changes),
        (
            "answers written again after a kill, copies to the byte",
            verdict.copies - verdict.wrong["copies that differ"],
        ),
        *((f"**{check}**", f"**{verdict.wrong[check]}**") for check in CHECKS),
    ]
    return Table("figures", ("", "count"), tuple((what, _shown(count)) for what, count in rows), words=1)


def step_tables(tally):
    """Yield the kills by step of a batch, of the enforcing query and of the audit."""
    for title, steps, found in (("enforce", Step, tally.steps), ("audit", AuditStep, tally.audit_steps)):
        rows = tuple((step.value, str(found[step]), _missed(tally.missed[step])) for step in steps)
        yield Table(
            f"where the kills hit, {title}", (f"step of a batch, {title}", "kills", "waited for in vain"), rows, 1
        )


def part_table(tally):
    """Return the outcome of each kill of a part."""
    rows = tuple((part.value, became) for part, became in tally.parts.items())
    return Table("a part alone", ("killed", "what came of it"), rows, words=2)


def surroundings_table(surroundings):
    """Return the outcome of full disks and of an absent broker."""
    rows = (
        ("a disk filled up to some KB that are left, while it enforces and audits", f"{surroundings.fills} times"),
        ("a job ended for it, with a line that says to free some", f"{surroundings.stops} times"),
        ("the broker away until enforce ended, with a line that says so", f"{surroundings.away:.0f} s"),
        ("**lost, forgiven, or ended otherwise, once there was space and a broker**", f"**{len(surroundings.wrong)}**"),
    )
    return Table("around the jobs", ("around the jobs", "what came of it"), rows, words=1)


def brokers_table(tally, verdict):
    """Return the failures of brokers and what came of them."""
    rows = [
        *((failure.value, tally.failures[failure]) for failure in Failure),
        ("from a failure until all partitions have other leaders, median s", f"{_median(tally.elections):.1f}"),
        ("the job ended for it, and went on when started again", len(tally.ended)),
        ("records on the request topic", verdict.requests),
        ("decisions", verdict.decisions),
        ("dead letters", verdict.dead_letters),
        ("quota changes", verdict.quota_changes),
        *((f"**{check}**", f"**{verdict.wrong[check]}**") for check in BROKER_CHECKS),
    ]
    return Table("brokers that fail", ("a broker of three", "count"), tuple((what, _shown(n)) for what, n in rows), 1)


def page(tally, verdict, brokers, surroundings, seconds):
    """Return the page in Markdown."""
    steps = "\n\n".join(table.markdown() for table in step_tables(tally))
    return f"""\
# Chaos

{_INTRO}
{_CHECKS}
{figures_table(tally, verdict, seconds).markdown()}

Steps are those of the batch that was under way. A kill of a job that did the audit, too, counts in both tables.

{steps}

{part_table(tally).markdown()}

{_BROKERS}
{brokers_table(*brokers).markdown()}

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
