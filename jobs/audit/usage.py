"""Sums the decisions table: the users, client-ids or buckets that requested the most mutations in a period."""

from contextlib import suppress
from typing import Any

import pyarrow.dataset as ds
from msgspec.structs import replace

from jobs.audit.decisions import Selection
from jobs.audit.quota_changes import read_quota_log
from jobs.audit.quota_history import scheduled_changes, scheduled_for
from jobs.audit.reader import bounded_duckdb, open_table, read_errors, to_datetime
from jobs.audit.tables import DECISIONS, MissingTable
from quota.callbacks.timeline import CallbackTimeline
from quota.explanation.explanation import Explanation
from quota.kafka.timing import HOUR_MS
from quota.records.entity import Tags
from quota.settings import Settings
from schemas.documents.records import By, Order, TopUsage, Usage

_MOST_NAMED = 1000
_KEYS: dict[By, tuple[str, ...]] = {
    "user": ("user",),
    "client": ("client_id",),
    "bucket": ("user_tag", "client_tag", "more_tags"),
}
_COLUMNS = {
    **{name: ds.field(name) for name in ("timestamp", "validate_only", "topics")},
    "paid": ds.field("repeats", "topics"),
    "codes": ds.field("shadow", "error_codes"),
    "answered": ds.field("observed", "at"),
    "given_back": ds.field("withdraws", "mutations"),
}
_COST = "coalesce(list_sum([topic.partitions for topic, place in topics if place > free AND {condition}]), 0)"
_SUMS = f"""
SELECT *, count(*) OVER () FROM (
    SELECT {{keys}}, count(*) FILTER (free < len(topics)), sum(cost)::BIGINT AS requested,
        sum(passed)::BIGINT AS admitted, sum(cost - passed)::BIGINT AS rejected, sum(refused)::BIGINT,
        coalesce(sum(cost) FILTER (answered IS NOT NULL), 0)::BIGINT, coalesce(sum(given_back), 0),
        epoch_ms(max("timestamp"))
    FROM (
        SELECT *, {_COST.format(condition="true")} AS cost, {_COST.format(condition="topic.error_code = 0")} AS passed,
            {_COST.format(condition="codes[place] <> 0")} AS refused
        FROM (
            SELECT *, CASE WHEN validate_only THEN len(topics) ELSE coalesce(paid, 0) END AS free
            FROM (SELECT * REPLACE (coalesce(more_tags, MAP {{{{}}}}) AS more_tags) FROM decisions)
        )
    )
    GROUP BY {{keys}}
)
WHERE {{order}} > 0
ORDER BY {{order}} DESC, requested DESC, {{keys}} LIMIT $limit
"""  # noqa: S608 constants
"""The topics that cost nothing, as in `quota.records.decision.Decision.free_topics`, count for no sum."""


def top_usage(settings: Settings, selection: Selection, by: By, order: Order, limit: int) -> TopUsage:
    """Return the largest sums of a selection.

    At most the limit is held in Python's memory; DuckDB's is bounded, since clients can make up client-ids.
    """
    keys = _KEYS[by]
    days = (None if time is None else to_datetime(time).date() for time in (selection.start, selection.end))
    with read_errors(settings), bounded_duckdb() as db:
        table = open_table(settings, DECISIONS)
        columns = _COLUMNS | {name: ds.field(name) for name in ("more_tags", *keys)}
        rows = table.dataset(*days).scanner(columns=columns, filter=selection.condition()).to_reader()
        db.register("decisions", rows)
        query = _SUMS.format(keys=", ".join(f'"{key}"' for key in keys), order=order)
        found = db.execute(query, {"limit": limit}).fetchall()
        newest_at = table.newest("timestamp")
    top = [Usage(*_whose(by, row[: len(keys)]), *row[len(keys) : -1]) for row in found]
    total = found[0][-1] if found else 0
    return TopUsage(top, total - len(top), selection.start, selection.end, newest_at)


def last_hour(settings: Settings, tags: Tags, now: int) -> dict[str, int]:
    """Return the mutations that a bucket was charged in the hour before now (epoch ms), the most first.

    They are those of the client-ids of a user's bucket, and of the users of others; of the first thousand.
    """
    by: By = "client" if tags.user else "user"
    charged = top_usage(settings, Selection(bucket=tags, start=now - HOUR_MS), by, "admitted", _MOST_NAMED).top
    return {usage.client_id or usage.user or "": usage.admitted for usage in charged}


def with_outlook(settings: Settings, explanation: Explanation, now: int) -> Explanation:
    """Return an explanation with who used its bucket in the last hour, and the scheduled changes as of now (epoch ms).

    Both are read from the audit's tables.
    """
    decision, quotas = explanation.decision, CallbackTimeline()
    charged = {} if decision.quota is None else last_hour(settings, decision.tags, now)
    with suppress(MissingTable), read_errors(settings):
        quotas = CallbackTimeline.of(read_quota_log(settings, now, with_clusters=False), settings.quota.callbacks)
    later, entity = scheduled_changes(quotas, now), decision.quota_entity
    scheduled = scheduled_for(later, decision.user, decision.client_id, entity, decision.tags)
    return replace(explanation, last_hour=charged, scheduled=scheduled)


def _whose(by: By, key: tuple[Any, ...]) -> tuple[str | None, str | None, dict[str, str] | None]:
    if by == "bucket":
        user, client_id, more = key
        return None, None, dict(Tags(user, client_id, tuple(sorted(more.items()))).items())
    return (*key, None, None) if by == "user" else (None, *key, None)
