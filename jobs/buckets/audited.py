"""Lists buckets: from the audit's table of decisions, or from the checkpoint of the enforcing query."""

from collections.abc import Callable, Iterator
from contextlib import suppress

import pyarrow.dataset as ds

from jobs.audit.tables.reader import AuditTable, bounded_duckdb, open_table, read_errors
from jobs.audit.tables.specs import DECISIONS, MissingTable
from jobs.buckets.listing import BucketQuery, no_buckets_error, select_buckets
from jobs.buckets.saved import SavedBucket
from jobs.query_names import ENFORCE
from jobs.storage.checkpoint import Checkpoint
from jobs.storage.stored_files import check_store, stored_files
from quota.records.entity import Tags
from quota.records.record import Source
from quota.settings import Settings
from schemas.buckets import STATE_VERSION
from schemas.documents.quotas import Buckets

_ROWS = 10_000

_COLUMNS = ("timestamp", "user_tag", "client_tag", "more_tags", "tokens", "quota", "burst", "max_debt_ms")

_LAST = """
    SELECT user_tag, client_tag, more_tags, last.*
    FROM (
        SELECT user_tag, client_tag, more_tags, max_by(last, struct_pack(newest, topic, "partition")) AS last
        FROM (
            SELECT user_tag, client_tag, coalesce(more_tags, MAP {}) AS more_tags, topic, "partition",
                max("timestamp") AS newest, max_by(
                {'K': tokens, 'T': epoch_ms("timestamp"), 'rate': quota, 'burst': burst, 'max_debt_ms': max_debt_ms},
                "offset"
            ) AS last
            FROM decisions GROUP BY ALL
        )
        GROUP BY ALL
    )
"""
"""In a partition the offset decides, even where a clock stepped back (`jobs.audit.decisions.NEWEST`)."""


def list_buckets(
    settings: Settings, query: BucketQuery, clock: Callable[[], int], *, from_checkpoint: bool = False
) -> Buckets:
    """Return the selected buckets as of their last audited decisions.

    Without the audit's table, or with `from_checkpoint`, they are those of the newest finished batch of the enforcing
    query, for which Spark is started. All jobs may run at the same time.
    """
    if not from_checkpoint:
        with suppress(MissingTable):
            return _list_audited(settings, query, clock)
    check_store(settings)
    files = stored_files(settings)
    checkpoint = Checkpoint.read(files, ENFORCE, STATE_VERSION)
    if not checkpoint.commits:  # before Spark is started
        raise no_buckets_error(f"{files.root}/{checkpoint.folder}")
    from jobs.buckets.store import list_stored  # noqa: PLC0415 it imports Spark

    return list_stored(settings, query, clock)


def _list_audited(settings: Settings, query: BucketQuery, clock: Callable[[], int]) -> Buckets:
    table = open_table(settings, DECISIONS)
    with read_errors(settings):
        return select_buckets(_audited(table), query, clock(), settings.quota.window, as_of=table.newest("timestamp"))


def _audited(table: AuditTable) -> Iterator[SavedBucket]:
    """Yield each bucket with the tokens after its last decision."""
    columns = {name: ds.field(name) for name in _COLUMNS}
    columns |= {name: ds.field("source", name) for name in Source.__struct_fields__}
    charged = ds.field("quota").is_valid() & ds.field("tokens").is_valid()
    with bounded_duckdb() as db:
        db.register("decisions", table.dataset().scanner(columns=columns, filter=charged).to_reader())
        db.execute(_LAST)
        while rows := db.fetchmany(_ROWS):
            for user, client, more, *values in rows:
                yield SavedBucket(Tags(user, client, tuple(sorted((more or {}).items()))).key, *values)
