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
Random sequences of 50 to 400 steps are run against Kafka's own classes, in a separate JVM with a controlled clock. The
same steps are then run, at the resulting times, against `quota.admission.decide.decide`, which is the code of the job.
The sequences have rates from 0.001 to 10^6 per second, windows from 1 to 30,000 s, costs from 0 to 10^9, and strict and
permissive requests of one to seven topics. Timestamps may be equal or step back, quotas change, and some clients wait
exactly the throttle time. All expectations come from Kafka's classes, none from the project.

- **Admitted topics** must be the same.
- **Tokens** before and after each request must agree within the possible rounding error: {ROUNDINGS_A_STEP} times half
  an epsilon (2^-53) per side and step since the bucket was full, relative to the largest amount it held since then. The
  two sides round at different times, because a refused attempt rewrites Kafka's bucket but not the project's.
- **Throttle times** must equal Kafka's to the millisecond, or be one more where Kafka rounded down. Where Kafka's int
  overflows, the project must answer 2147483647 and Kafka the remainder of the int. The effect of a debt within rounding
  (1e-9 and 1e-12 of the tokens) on the time is taken into account.

Three differences would change the state for the next step. The comparison prevents them in Kafka, and the next section
covers each of them in a separate case. Kafka's clock stops where it would step back before the last write of the
bucket. Kafka's metric is read just before a quota changes, which fills the bucket at the old rate. A debt within
rounding, for which Kafka has just refused a topic, is paid off, and the topic is tried again. A sequence ends early if
even the bits of Kafka's own rounding do not determine whether there is a debt.

The sequences do not contain two quota changes without a request between them (a case below), requests that arrive after
a quota change with a timestamp before it (Kafka's quotas have no history), and features without a counterpart in Kafka:
shadow, exempt users and `buckets reset`.
"""

_DIFFERENCES = """\
Each case is run against unmodified Kafka and against the project; both answers were calculated by hand and are checked.
The table shows the answer to the last request. `Q` is the rate, `B` the burst, `K` the tokens before the request. Kafka
removes the sensor of a bucket that was not charged for an hour, even if requests were refused meanwhile; the case does
what Kafka's task does every 30 s.
"""

_SYSTEM = """\
Each request is sent to the project's job on Spark and, at the same time, to the broker that the job uses. The broker
enforces `controller_mutation_rate` itself, as set with Kafka's admin client; each scenario has its own client-id.
Strict requests are sent by Kafka's admin client with `retryOnQuotaViolation(false)`. Permissive requests are sent by
confluent-kafka's client, which uses versions from before the error and gets the throttle time through its
`throttle_cb`. Each request has its own connection, because the broker mutes a connection that it throttles.

The two sides see a request at slightly different times. The comparison therefore uses the time in ms, since the
scenario's first request, at which the debt is paid off: the time of the request plus its throttle time. This time was
calculated by hand for each request, and must be within 1 ms of the project's, which is rounded up. The broker charged
the first and the last request at some time between sending and response, which gives a range; the calculated time must
be in this range.
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

`make conformance` repeats this comparison and writes this page. All differences are intended;
[Differences from Kafka](../explanation/differences-from-kafka.md) explains them.

## The bucket

{_BUCKET}
Seed {result.seed}:

{tally_table(result.tally).markdown()}

## The intended differences

{_DIFFERENCES}
{difference_table(result.differences).markdown()}

## A real broker

{_SYSTEM}
{system_table(result.rows).markdown()}

## Versions

Kafka {result.kafka} (classes and embedded broker), its admin client {result.java_admin}, {packages}, Python
{platform.python_version()}. Kafka's classes of the controller, and the classes that store its buckets:

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
        ("timestamps that step back", f"{tally.steps_back:,}"),
        ("**mismatches**", "**0**"),
        ("requests with tokens equal to the last bit", f"{tally.exact / tally.tries:.0%}"),
        ("largest difference in tokens (tokens in the bucket)", f"{tally.largest_tokens:.1e} ({tally.at_tokens:.1e})"),
        ("largest share of the permitted rounding error", f"{tally.largest_share:.0%}"),
        ("throttle times equal to the millisecond", f"{tally.equal_to_the_ms:,}"),
        ("throttle times one more here: rounded up where Kafka rounds down", f"{tally.rounded_up:,}"),
        ("throttle times 2147483647 here, where Kafka's int overflows", f"{tally.capped:,}"),
        ("topics admitted here, where Kafka refuses because of a debt within rounding", f"{tally.within_rounding:,}"),
        ("sequences that ended early: rounding alone decides whether there is a debt", f"{tally.ended_early:,}"),
    )
    return Table("the bucket", ("", "count"), rows, words=1)


def difference_table(cases: Sequence[Case]) -> Table:
    """Return the intended differences with both answers."""
    rows = tuple((case.difference, case.happens, case.kafka, case.project) for case in cases)
    return Table("intended differences", ("difference", "what happens", "Kafka", "here"), rows, words=4)


def system_table(rows: Sequence[Row]) -> Table:
    """Return the answers of a real broker and of the job."""
    headings = ("scenario", "request", "broker", "throttle ms", "paid off at", "here", "throttle ms", "paid off at")
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
