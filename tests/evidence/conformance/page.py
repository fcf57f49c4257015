"""The page docs/evidence/conformance.md and its tables."""

import platform
from collections.abc import Sequence
from dataclasses import dataclass

from tests.evidence.conformance.broker.comparison import Row
from tests.evidence.conformance.broker.scenarios import Ask
from tests.evidence.conformance.bucket.comparison import ROUNDINGS_A_STEP, Tally
from tests.evidence.conformance.bucket.differences import Case
from tests.evidence.conformance.bucket.oracle import CLASSES
from tests.evidence.pages import Table, versions

_BUCKET = f"""\
Random sequences of 50 to 400 steps run through Kafka's own classes, in a JVM of their own under a clock that is told,
and then, at the times that came of it, through `quota.admission.decide.decide`, the very code of the job: rates from
0.001 to 10^6 a second, windows from 1 to 30,000 s, costs from 0 to 10^9, requests of one to seven topics, strict and
permissive, ties and steps back of the clock, quotas that change, clients that wait exactly the time they were told.
Nothing of what is expected is computed by the project.

- **Admitted topics** must be the same.
- **Tokens**, before and after each request, must be the same within what roundings can come to: {ROUNDINGS_A_STEP} of
  half an epsilon (2^-53) on each side and step since the bucket was full, of the most it has held since. The sides
  round at different moments, because a refused try writes Kafka's bucket anew, and the project's not.
- **Throttle times** must be Kafka's to the millisecond, or one more where Kafka rounded down; 2147483647 where
  Kafka's int overflows, and Kafka's must be what is left of the int. What a debt within rounding (1e-9 and 1e-12 of
  the tokens) makes of the time is taken into account.

Three differences change what the next step finds, so Kafka is kept from them, and they are cases of their own below.
Its clock stands still where it would step back behind the last write of the bucket. Its metric is read in the moment
before a quota changes, which fills the bucket at the old rate. A debt within rounding, for which it has just refused,
is paid off, and the topic tried again. A sequence ends early where not even the bits of Kafka's own roundings decide
whether a debt is one.

Not in the sequences: two changes of a quota with no request between them (a case below), requests that come later
than a change and are of before it (Kafka's quotas have no past), and what Kafka has no counterpart of: shadow, exempt
users, `buckets reset`.
"""

_DIFFERENCES = """\
Each is asked of Kafka as it is, and of the project; both answers are worked out by hand and checked. The answer is
that to the last request. `Q` is the rate, `B` the burst, `K` the tokens before the request. The sensor of a bucket
that nothing was charged to for an hour is removed by Kafka, refused tries notwithstanding; the case does what its
task of each 30 s does.
"""

_SYSTEM = """\
Each request goes to the project's job, on Spark, and at once to the broker that the job runs on, which enforces
`controller_mutation_rate` itself, set by Kafka's admin client; each scenario has a client-id of its own. Strict
requests are those of Kafka's admin client with `retryOnQuotaViolation(false)`, permissive ones those of
confluent-kafka's, which speaks versions before the error, and is told the throttle time by its `throttle_cb`. Each
goes over a connection of its own, because the broker mutes one that it throttles.

The two see a request at slightly different moments, so what is compared is when the debt is paid off by what they
told: the throttle time, and the time since the scenario's first request, in ms. It is worked out by hand for each,
and must be within 1 ms of the project's, which is rounded up. The broker charged the first and the last request at
some moment between sending and answer, which gives the range; the moment worked out by hand must be in it.
"""


@dataclass(frozen=True, slots=True)
class Result:
    """The results of a run of the program."""

    seed: int
    tally: Tally
    differences: Sequence[Case]
    rows: Sequence[Row]
    kafka: str
    """Version of the classes and of the broker."""
    java_admin: str
    """Version of Kafka's admin client."""


def page(result: Result) -> str:
    """Return the page in Markdown."""
    packages = versions("confluent-kafka", "pyspark")
    classes = "\n".join(f"- `{name}`" for name in CLASSES)
    return f"""\
# Conformance with Kafka

Written by `make conformance`, which does it again. What differs, differs on purpose, and is in
[differences from Kafka](../explanation/differences-from-kafka.md).

## The bucket

{_BUCKET}
Seed {result.seed}:

{tally_table(result.tally).markdown()}

## The differences on purpose

{_DIFFERENCES}
{difference_table(result.differences).markdown()}

## A real broker

{_SYSTEM}
{system_table(result.rows).markdown()}

## Versions

Kafka {result.kafka} (classes and embedded broker), its admin client {result.java_admin}, {packages}, Python
{platform.python_version()}. The classes of the controller, and what they keep a bucket in:

{classes}
"""


_WORDS = {"A": "admitted", "R": "refused"}


def tally_table(tally: Tally) -> Table:
    """Return the counts of the comparison of buckets."""
    rows = (
        ("sequences", f"{tally.sequences:,}"),
        ("requests", f"{tally.tries:,}"),
        ("topics, of these refused", f"{tally.topics:,}, {tally.refused:,}"),
        ("quota changes", f"{tally.changes:,}"),
        ("steps back of the clock", f"{tally.steps_back:,}"),
        ("**mismatches**", "**0**"),
        ("tokens the same to the last bit, of the requests", f"{tally.exact / tally.tries:.0%}"),
        ("largest difference in tokens (of so many)", f"{tally.largest_tokens:.1e} ({tally.at_tokens:.1e})"),
        ("largest part of what the roundings may come to", f"{tally.largest_share:.0%}"),
        ("throttle times the same to the millisecond", f"{tally.equal_to_the_ms:,}"),
        ("one more here: rounded up where Kafka rounds down", f"{tally.rounded_up:,}"),
        ("2147483647 here, where Kafka's int overflows", f"{tally.capped:,}"),
        ("admitted here, where Kafka refuses for a debt within rounding", f"{tally.within_rounding:,}"),
        ("sequences that ended early: a debt that rounding alone decides about", f"{tally.ended_early:,}"),
    )
    return Table("the bucket", ("", "count"), rows, words=1)


def difference_table(cases: Sequence[Case]) -> Table:
    """Return the differences on purpose with both answers."""
    rows = tuple((case.difference, case.happens, case.kafka, case.project) for case in cases)
    return Table("differences on purpose", ("difference", "what happens", "Kafka", "here"), rows, words=4)


def system_table(rows: Sequence[Row]) -> Table:
    """Return the answers of a real broker and of the job."""
    headings = ("scenario", "request", "broker", "told ms", "paid off at", "here", "told ms", "paid off at")
    return Table("a real broker", headings, tuple(_cells(row) for row in rows), words=3)


def _cells(row: Row) -> tuple[str, ...]:
    title = row.scenario.title + (f" (difference: {row.scenario.difference})" if row.scenario.difference else "")
    theirs, ours = ("", ""), ("", "")
    if row.kafka_throttle_ms:
        theirs = f"{row.kafka_throttle_ms:,}", f"{row.kafka_paid_off[0]:,.0f} to {row.kafka_paid_off[1]:,.0f}"
    if row.project_throttle_ms:
        ours = f"{row.project_throttle_ms:,}", f"{row.project_paid_off:,.0f}"
    return (title, _request(row.ask), _fates(row.kafka), *theirs, _fates(row.project), *ours)


def _request(ask: Ask) -> str:
    what = ask.operation.value.lower().replace("_", " ")
    if ask.validate_only:
        what += ", validate only"
    if ask.new_rate is not None:
        what = f"quota {ask.new_rate:g}; {what}"
    return f"{what}: {' + '.join(str(topic.partitions) for topic in ask.topics)}"


def _fates(verdicts: str) -> str:
    """Return a text such as `2 admitted, 2 refused`; without numbers for a single topic."""
    if len(verdicts) == 1:
        return _WORDS[verdicts]
    return ", ".join(f"{verdicts.count(each)} {word}" for each, word in _WORDS.items() if each in verdicts)
