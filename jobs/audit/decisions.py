"""Reads the decisions table: a decision by its id, with its explanation, and the newest ones of a selection."""

import dataclasses
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import date

import duckdb
import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from msgspec.structs import replace
from pyspark.sql.types import TimestampType

from jobs.audit.quota_changes import metadata_at
from jobs.audit.reader import open_table, read_errors, to_datetime
from jobs.audit.tables import DEAD_LETTERS, DECISIONS, MissingTable
from quota.admission.order import in_order, position_of
from quota.errors import NotFound
from quota.explanation.explanation import Explanation, explain
from quota.explanation.explanation_text import summarize
from quota.records.decision import Decision, Outcome
from quota.records.entity import Tags
from quota.records.reason import Reason
from quota.records.record import Source
from quota.settings import Settings
from quota.text import format_tags, format_time, format_tokens

_POSITION = {
    "decision_id": ds.field("decision_id"),
    "timestamp": ds.field("timestamp"),
    "topic": ds.field("source", "topic"),
    "partition": ds.field("source", "partition"),
    "offset": ds.field("source", "offset"),
}
_TOPICS = {"topics": ds.field("topics"), "shadow": ds.field("shadow")}
_ORDER = ("topic", '"partition"', '"offset"')

NEWEST = 'max("timestamp") OVER (PARTITION BY topic, "partition" ORDER BY "offset")'
"""The first key of the order of requests in SQL, before topic, partition and offset: the newest time in the partition.

Within a partition the offset decides, even if a clock stepped back, as in `quota.admission.order.in_order`, but over
all buckets of the partition.
"""

_ROWS = 2_000


@dataclass(frozen=True, slots=True)
class Selection:
    """Which decisions to read; None stands for any."""

    user: str | None = None
    client_id: str | None = None
    topic: str | None = None
    rejected: bool = False
    """Only those that reject a topic, or would have without shadow: if a topic is given, that one."""
    start: int | None = None
    """The earliest time of the request [epoch ms]."""
    end: int | None = None
    """The end of the period, exclusive [epoch ms]."""
    reason: Reason | None = None
    """Of the rejected ones, only those of this reason, also in shadow."""
    bucket: Tags | None = None
    """Only those charged to the bucket with these tags."""
    unrecorded: bool = False
    """Only those before which a gateway has rejected topics of the client without a decision."""

    def condition(self) -> ds.Expression:
        """Return the filter of the table's rows."""
        condition = ds.scalar(value=True)
        if self.user is not None:
            condition &= ds.field("user") == self.user
        if self.client_id is not None:
            condition &= ds.field("client_id") == self.client_id
        if self.bucket is not None:
            condition &= ds.field("user_tag") == self.bucket.user
            condition &= ds.field("client_tag") == self.bucket.client_id
            for tag, value in self.bucket.more:
                condition &= pc.map_lookup(ds.field("more_tags"), query_key=pa.scalar(tag), occurrence="first") == value
        if self.rejected:
            admitted, shadow = Outcome.ADMITTED.value, ds.field("shadow", "outcome")
            condition &= (ds.field("outcome") != admitted) | (shadow.is_valid() & (shadow != admitted))
        if self.unrecorded:
            condition &= ds.field("unrecorded") > 0
        if self.start is not None:
            condition &= ds.field("timestamp") >= to_datetime(self.start)
        if self.end is not None:
            condition &= ds.field("timestamp") < to_datetime(self.end)
        return condition

    def of_topic(self) -> str:
        """Return the condition for the topics of a decision, in SQL."""
        if self.topic is None and self.reason is None:
            return "true"
        named = "true" if self.topic is None else "topic.name = '{}'".format(self.topic.replace("'", "''"))
        if not self.rejected:
            return f"list_contains([{named} for topic in topics], true)"
        rejected = f"= {self.reason.code}" if self.reason else "<> 0"
        return (
            f"list_contains([{named} AND topic.error_code {rejected} for topic in topics], true) OR "
            f"list_contains([{named} AND shadow.error_codes[place] {rejected} for topic, place in topics], true)"
        )

    def includes(self, day: date) -> bool:
        """Return whether the period includes times of a day (UTC)."""
        return (self.start is None or to_datetime(self.start).date() <= day) and (
            self.end is None or day <= to_datetime(self.end).date()
        )


class AuditedDecisions:
    """The decisions table, at the version that was current when it was opened."""

    def __init__(self, settings: Settings) -> None:
        self._table = open_table(settings, DECISIONS)

    def newest_at(self) -> int | None:
        """Return the time of the newest request with a decision in the table [epoch ms]; None if there is none."""
        return self._table.newest("timestamp")

    def find(self, source: Source) -> Decision | None:
        """Return the decision on the request at this position."""
        return next(iter(to_decisions(self._table.at(source))), None)

    def latest(self, selection: Selection, limit: int) -> list[Decision]:
        """Return the newest decisions of a selection, those of each partition in its order."""
        decisions: list[Decision] = []
        for day in reversed(self._table.dates()):
            if len(decisions) == limit:
                break
            if not selection.includes(day):
                continue
            of_day = self._table.dataset(day, day).filter(selection.condition())
            if ids := _newest_ids(of_day, selection, limit - len(decisions)):
                decisions += to_decisions(of_day.to_table(filter=ds.field("decision_id").isin(ids)))
        return in_order(decisions, position_of)


def _newest_ids(of_day: ds.Dataset, selection: Selection, count: int) -> list[str]:
    """Return the ids of the newest decisions of a day, which may have millions."""
    order = ", ".join(f"{name} DESC" for name in (NEWEST, *_ORDER))
    columns = _POSITION | _TOPICS if selection.of_topic() != "true" else _POSITION
    with duckdb.connect() as db:
        positions = db.from_arrow(of_day.scanner(columns=columns).to_reader())
        newest = positions.filter(selection.of_topic()).order(order).limit(count).project("decision_id").fetchall()
    return [decision_id for (decision_id,) in newest]


def to_decisions(rows: pa.Table) -> list[Decision]:
    """Return the decisions of rows of the table."""
    with duckdb.connect() as db:
        return [decision for decision, _ in read_answers(db.from_arrow(rows))]


def read_answers(rows: duckdb.DuckDBPyRelation, *, with_buckets: bool = True) -> Iterator[tuple[Decision, int]]:
    """Yield the decisions of rows of the table, each with the time at which it was written to its topic [epoch ms].

    Columns that an older version lacks have their defaults. What is only counted is read faster without the bucket
    before each decision; that of a late request stays, because its time is still the bucket's.
    """
    try:
        for batch in rows.project(f"{_json(with_buckets)}, epoch_ms(decided_at)").to_arrow_reader(_ROWS):
            decisions, times = (column.to_pylist() for column in batch.columns)
            yield from zip(map(_decode, decisions), times, strict=True)
    except OSError as error:  # Arrow's reader has the text of DuckDB's error alone
        if "Out of Memory Error" not in str(error):
            raise
        raise duckdb.OutOfMemoryException(str(error)) from None


def _json(with_buckets: bool) -> str:  # noqa: FBT001
    """Return the JSON of a decision in SQL."""
    values = {name: f'"{name}"' for name in Decision.__struct_fields__}
    if not with_buckets:
        values["bucket_before"] = 'CASE WHEN bucket_before.updated_at > epoch_ms("timestamp") THEN bucket_before END'
    times = [field.name for field in DECISIONS.schema if isinstance(field.dataType, TimestampType)]
    values |= {name: f"epoch_ms({values[name]})" for name in times if name in values}
    values |= {name: f"coalesce({values[name]}, false)" for name in ("exempt", "apply")}
    values["unrecorded"] = "coalesce(unrecorded, 0)"
    values["more_tags"] = "coalesce(more_tags, MAP {})"
    values["quota_entity"] = "quota_entity::JSON"
    fields = ", ".join(f"'{name}': {value}" for name, value in values.items())
    return f"encode(to_json({{{fields}}})::VARCHAR)"


_decode = msgspec.json.Decoder(Decision).decode


def explain_decision(settings: Settings, decision_id: str) -> Explanation:
    """Explain a decision from its row."""
    source = Source.parse(decision_id, "decision")
    with read_errors(settings):
        decisions = AuditedDecisions(settings)
        decision = decisions.find(source)
        if decision is None:
            raise _absent_error(settings, decisions, source)
        return _explained(settings, decision)


def explain_newest(settings: Settings, selection: Selection) -> tuple[Explanation, int | None]:
    """Explain the newest decision of a selection; also return the time of the newest one of all (epoch ms)."""
    with read_errors(settings):
        decisions = AuditedDecisions(settings)
        newest_at = decisions.newest_at()
        newest = decisions.latest(selection, 1)
        others = newest or decisions.latest(dataclasses.replace(selection, rejected=False), 1)
    if not newest:
        names = {"user": selection.user, "client-id": selection.client_id, "topic": selection.topic}
        whose = format_tags({part: name for part, name in names.items() if name is not None})
        said = "".join(f"the newest is {_summary(other)}; " for other in others)
        raise NotFound(f"no decision{whose and f' of {whose}'} rejected a topic; {said}{_reach(settings, newest_at)}")
    last = newest[0]
    with read_errors(settings):
        later = Selection(last.user, last.client_id, start=last.timestamp, unrecorded=True)
        reported = [each.unrecorded for each in decisions.latest(later, 1) if each.decision_id != last.decision_id]
        return replace(_explained(settings, last), unrecorded_after=sum(reported)), newest_at


def _explained(settings: Settings, decision: Decision) -> Explanation:
    explanation = explain(decision)
    if decision.callback is not None:
        with suppress(MissingTable):
            return replace(explanation, metadata_at=metadata_at(settings, decision.timestamp))
    return explanation


def _summary(decision: Decision) -> str:
    """Return what was decided, how many tokens the bucket had afterwards, and the command that explains it."""
    left = "" if decision.tokens is None else f", and its bucket had {format_tokens(decision.tokens)} tokens afterwards"
    what = summarize(decision, decision.timestamp).removesuffix(".")
    return f"of {format_time(decision.timestamp)}: {what}{left} (mutation-quota explain {decision.decision_id})"


def _absent_error(settings: Settings, decisions: AuditedDecisions, source: Source) -> NotFound:
    letters = open_table(settings, DEAD_LETTERS).at(source).to_pylist()
    if letters:
        return NotFound(f"{source} is not a decision but a dead letter: {letters[0]['error']}")
    return NotFound(f"{source}: no such decision in the table; {_reach(settings, decisions.newest_at())}")


def _reach(settings: Settings, newest_at: int | None) -> str:
    """Return up to when the audit has decisions, the newest at `newest_at` (epoch ms), and how soon others follow."""
    until = "no decisions yet" if newest_at is None else f"decisions up to {format_time(newest_at)}"
    newer = f"while it is running, newer ones follow every {settings.audit.trigger_seconds:g} s"
    return f"the audit has {until}; {newer}"
