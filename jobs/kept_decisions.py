"""Decisions out of their table: one by its id, and those of its bucket before and behind it."""

from collections.abc import Iterator
from datetime import UTC, date, datetime

import msgspec
import pyarrow as pa
import pyarrow.dataset as ds

from jobs.kept_table import epoch_ms, moment, open_table, stands_at
from jobs.rows import Row
from jobs.tables import DECISIONS
from quota import codec
from quota.decision import Decision
from quota.entity import QuotaEntity
from quota.record import Source
from quota.request import TopicDetails
from quota.settings import Settings

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
_ORDER = ("timestamp", "topic", "partition", "offset")
"""That of the requests of one bucket."""

_NULLABLE = ("callback", "quota", "burst", "max_debt_ms", "quota_entity", "shadow", "tokens_before", "tokens")

_entity_decoder = msgspec.json.Decoder(QuotaEntity)


class KeptDecisions:
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
        return self._around(decision, _earlier(decision), "descending")

    def behind(self, decision: Decision) -> Iterator[Decision]:
        """Those of its bucket behind it, in their order."""
        this = ds.field("decision_id") == decision.decision_id
        return self._around(decision, ~_earlier(decision) & ~this, "ascending")

    def _around(self, decision: Decision, where: ds.Expression, direction: str) -> Iterator[Decision]:
        """Day by day, and of each day first only where they stand: a tenant may have a million of them."""
        left = _MOST
        where &= _of_its_bucket(decision)
        for day in self._days(decision, descending=direction == "descending"):
            of_day = where & (ds.field("date") == day)
            places = self._table.to_table(columns=_PLACE, filter=of_day)
            places = places.filter(
                pa.array([dict(tags or ()) == decision.more_tags for tags in places[_TAGS].to_pylist()], pa.bool_())
            )
            ids = places.sort_by([(name, direction) for name in _ORDER])["decision_id"].slice(0, left)
            for start in range(0, len(ids), _AT_ONCE):
                yield from self._whole(of_day, ids.slice(start, _AT_ONCE).to_pylist())
            left -= len(ids)
            if left <= 0:
                return

    def _whole(self, where: ds.Expression, ids: list[str]) -> Iterator[Decision]:
        rows = self._table.to_table(filter=where & ds.field("decision_id").isin(ids)).to_pylist()
        found = {row["decision_id"]: row for row in rows}
        return (decision_of(found[each]) for each in ids)

    def _days(self, decision: Decision, *, descending: bool) -> list[date]:
        """The days from that of a decision on, or back."""
        keys = (ds.get_partition_keys(part.partition_expression) for part in self._table.get_fragments())
        days = sorted({each["date"] for each in keys}, reverse=descending)
        this = datetime.fromtimestamp(decision.timestamp / 1000, tz=UTC).date()
        return [day for day in days if (day <= this if descending else day >= this)]


def decision_of(row: Row) -> Decision:
    """The decision in a row of the table; what an earlier version's table does not have, has its default."""
    values: Row = dict.fromkeys(_NULLABLE) | {"more_tags": {}, "exempt": False}
    values |= {name: value for name, value in row.items() if name in Decision.__struct_fields__ and value is not None}
    for name in ("timestamp", "retry_at", "expires_at"):
        values[name] = epoch_ms(values.get(name))
    values["more_tags"] = dict(values["more_tags"])
    if values["quota_entity"] is not None:
        values["quota_entity"] = codec.decode(values["quota_entity"].encode(), _entity_decoder)
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


def _earlier(decision: Decision) -> ds.Expression:
    """Those of its bucket that were decided before it: by (timestamp, topic, partition, offset)."""
    source = decision.source
    earlier = ds.field("source", "offset") < source.offset
    for name, value in (("partition", source.partition), ("topic", source.topic)):
        field = ds.field("source", name)
        earlier = (field < value) | ((field == value) & earlier)
    at = ds.field("timestamp")
    return (at < moment(decision.timestamp)) | ((at == moment(decision.timestamp)) & earlier)
