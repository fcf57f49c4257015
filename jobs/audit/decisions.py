"""Decisions out of their table: one by its id, and those of its bucket before and behind it."""

from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime

import msgspec
import pyarrow as pa
import pyarrow.dataset as ds

from jobs.audit.reader import epoch_ms, open_table, stands_at
from jobs.audit.tables import DECISIONS
from quota.records.decision import Decision
from quota.records.entity import QuotaEntity
from quota.records.record import Row, Source
from quota.records.request import TopicDetails
from quota.settings.model import Settings

_AT_ONCE = 100
_MOST = 2000
"""So many decisions of a bucket are looked through at most: a client that is refused may try for days."""

_TAGS = "more_tags"
_PLACE = {
    "decision_id": ds.field("decision_id"),
    "timestamp": ds.field("timestamp"),
    "topic": ds.field("source", "topic"),
    "partition": ds.field("source", "partition"),
    "offset": ds.field("source", "offset"),
    _TAGS: ds.field(_TAGS),
}
_ORDER = ["timestamp", "topic", "partition", "offset"]
"""That of the requests of one bucket."""

_NULLABLE = ("callback", "quota", "burst", "max_debt_ms", "quota_entity", "shadow", "tokens_before", "tokens")


class AuditedDecisions:
    """The table of decisions, as it was when it was opened."""

    def __init__(self, settings: Settings) -> None:
        """Open it.

        Raises:
            MutationQuotaError: it is not there, is a newer program's, or cannot be read.
        """
        self._table = open_table(settings, DECISIONS)

    def find(self, source: Source) -> Decision | None:
        """The decision on the request that stands there."""
        rows = self._table.to_table(filter=stands_at(source)).to_pylist()
        return decision_of(rows[0]) if rows else None

    def before(self, decision: Decision) -> Iterator[Decision]:
        """Those of its bucket before it, the newest first; at most as many as are worth looking through."""
        return self._around(decision, backwards=True)

    def behind(self, decision: Decision) -> Iterator[Decision]:
        """Those of its bucket behind it, in their order."""
        return self._around(decision, backwards=False)

    def _around(self, decision: Decision, *, backwards: bool) -> Iterator[Decision]:
        """Day by day, and of each day first only where they stand: a tenant may have a million of them."""
        left = _MOST
        of_bucket = _of_its_bucket(decision)
        own = datetime.fromtimestamp(decision.timestamp / 1000, tz=UTC).date()
        for day in reversed(self._days()) if backwards else self._days():
            if day > own if backwards else day < own:
                continue
            of_day = of_bucket & (ds.field("date") == day)
            ids = self._ids(of_day, decision.more_tags)
            if backwards:
                ids.reverse()
            if day == own:
                ids = ids[ids.index(decision.decision_id) + 1 :]
            ids = ids[:left]
            for start in range(0, len(ids), _AT_ONCE):
                yield from self._whole(of_day, ids[start : start + _AT_ONCE])
            left -= len(ids)
            if left <= 0:
                return

    def _ids(self, where: ds.Expression, more_tags: Mapping[str, str]) -> list[str]:
        """Of decisions of one bucket, in the order in which they were made."""
        places = self._table.to_table(columns=_PLACE, filter=where)
        mine = [dict(tags or ()) == more_tags for tags in places[_TAGS].to_pylist()]
        frame = places.filter(pa.array(mine, pa.bool_())).drop_columns([_TAGS]).to_pandas()
        # In a partition the offset decides, also where a clock stepped back (`quota.admission.decide.in_order`).
        frame = frame.sort_values("offset")
        frame["timestamp"] = frame.groupby(["topic", "partition"])["timestamp"].cummax()
        return list(frame.sort_values(_ORDER)["decision_id"])

    def _whole(self, where: ds.Expression, ids: list[str]) -> Iterator[Decision]:
        rows = self._table.to_table(filter=where & ds.field("decision_id").isin(ids)).to_pylist()
        found = {row["decision_id"]: row for row in rows}
        return (decision_of(found[each]) for each in ids)

    def _days(self) -> list[date]:
        """The days of which there is something."""
        keys = (ds.get_partition_keys(part.partition_expression) for part in self._table.get_fragments())
        return sorted({each["date"] for each in keys})


def decision_of(row: Row) -> Decision:
    """The decision in a row of the table; what an earlier version's table does not have, has its default."""
    values: Row = dict.fromkeys(_NULLABLE) | {"more_tags": {}, "exempt": False}
    values |= {name: value for name, value in row.items() if name in Decision.__struct_fields__ and value is not None}
    for name in ("timestamp", "retry_at", "expires_at"):
        values[name] = epoch_ms(values.get(name))
    values["more_tags"] = dict(values["more_tags"])
    if values["quota_entity"] is not None:
        values["quota_entity"] = QuotaEntity.of_key(values["quota_entity"])
    values["topics"] = [_topic(each) for each in values["topics"]]
    return msgspec.convert(values, Decision)


def _topic(row: Row) -> Row:
    said = {
        name: value for name, value in row.items() if value is not None or name not in TopicDetails.__struct_fields__
    }
    return said | ({"configs": dict(said["configs"])} if "configs" in said else {})


def _of_its_bucket(decision: Decision) -> ds.Expression:
    return (
        (ds.field("user_tag") == decision.user_tag)
        & (ds.field("client_tag") == decision.client_tag)
        & ds.field("quota").is_valid()
    )
