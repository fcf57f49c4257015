"""What came out, as tables for a terminal and for the page."""

from collections.abc import Sequence

from tests.evidence.conformance.comparison import Tally
from tests.evidence.conformance.differences import Case
from tests.evidence.conformance.scenarios import Ask
from tests.evidence.conformance.system import Row
from tests.evidence.experiment.report import Table

_WORDS = {"A": "admitted", "R": "refused"}


def tally_table(tally: Tally) -> Table:
    """What was compared of the bucket."""
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
    """The differences on purpose, and both answers."""
    rows = tuple((case.difference, case.happens, case.kafka, case.project) for case in cases)
    return Table("differences on purpose", ("difference", "what happens", "Kafka", "here"), rows, words=4)


def system_table(rows: Sequence[Row]) -> Table:
    """A real broker and the job, side by side."""
    headings = ("scenario", "request", "broker", "told ms", "paid off at", "here", "told ms", "paid off at")
    return Table("a real broker", headings, tuple(_cells(row) for row in rows), words=3)


def _cells(row: Row) -> tuple[str, ...]:
    title = row.scenario.title + (f" (difference: {row.scenario.difference})" if row.scenario.difference else "")
    theirs, ours = ("", ""), ("", "")
    if row.kafka_told:
        theirs = f"{row.kafka_told:,}", f"{row.kafka_paid_off[0]:,.0f} to {row.kafka_paid_off[1]:,.0f}"
    if row.project_told:
        ours = f"{row.project_told:,}", f"{row.project_paid_off:,.0f}"
    return (title, _request(row.ask), _fates(row.kafka), *theirs, _fates(row.project), *ours)


def _request(ask: Ask) -> str:
    what = ask.operation.value.lower().replace("_", " ")
    if ask.validate_only:
        what += ", validate only"
    if ask.new_rate is not None:
        what = f"quota {ask.new_rate:g}; {what}"
    return f"{what}: {' + '.join(str(topic.partitions) for topic in ask.topics)}"


def _fates(verdicts: str) -> str:
    """As `2 admitted, 2 refused`; of a single topic without its number."""
    if len(verdicts) == 1:
        return _WORDS[verdicts]
    return ", ".join(f"{verdicts.count(each)} {word}" for each, word in _WORDS.items() if each in verdicts)
