"""Lists and describes buckets, by audited decisions or the checkpoint: who shares each, and its tokens now."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from heapq import nsmallest

import pyarrow.dataset as ds

from jobs.audit.reader import AuditTable, bounded_duckdb, open_table, read_errors
from jobs.audit.tables import DECISIONS, MissingTable
from jobs.buckets.saved import SavedBucket, no_buckets_error
from jobs.query_names import ENFORCE
from jobs.storage.checkpoint import Checkpoint
from jobs.storage.stored_files import check_store, stored_files
from quota.algorithms.token_bucket import Bucket, in_debt, min_tokens, throttle_ms, tokens_at
from quota.records.entity import Tags
from quota.records.levels import Limit, Resolution
from quota.records.quota_log import Quota, Window
from quota.records.record import BEGINNING, Source
from quota.settings import Settings
from schemas.buckets import STATE_VERSION
from schemas.documents.quotas import Buckets, DescribedBucket, ListedBucket


@dataclass(frozen=True, slots=True)
class BucketSelection:
    """Which buckets to list."""

    tags: Mapping[str, str]
    """Tags that a bucket must have."""
    in_debt: bool = False
    """Whether to list only buckets in debt."""
    limit: int = 1
    """The number of buckets that are returned; the others are counted."""
    alone: bool = False
    """Whether a bucket must have no other tags."""

    @property
    def is_all(self) -> bool:
        """Whether the selection includes every bucket."""
        return not (self.tags or self.in_debt)


def to_listed(saved: SavedBucket, now: int, window: Window) -> ListedBucket:
    """Return a saved bucket as listed at `now` (epoch ms)."""
    quota = Quota(saved.rate, saved.burst, saved.max_debt_ms)
    bucket = Bucket(saved.K, saved.T, quota)
    limit = Limit(quota, BEGINNING)
    burst = window.burst(saved.rate, saved.burst)
    tokens = tokens_at(now, bucket, limit, window)
    indebted = in_debt(tokens, saved.K)
    return ListedBucket(
        bucket=dict(Tags.from_key(saved.bucket).items()),
        tokens=saved.K,
        updated_at=saved.T,
        tokens_now=tokens,
        rate=saved.rate,
        burst=burst,
        max_debt_ms=saved.max_debt_ms,
        in_debt=indebted,
        debt_ends_in_ms=throttle_ms(tokens, saved.K, saved.rate) if indebted else 0,
        full_in_ms=throttle_ms(tokens - burst, saved.K, saved.rate),
    )


def select_buckets(
    saved: Iterable[SavedBucket], selection: BucketSelection, now: int, window: Window, *, as_of: int | None = None
) -> Buckets:
    """Return the selected buckets with their tokens at `now` (epoch ms), lowest first, then by name.

    At most the limit is held in memory.
    """
    matched = 0

    def matching() -> Iterator[ListedBucket]:
        nonlocal matched
        for bucket in saved:
            row = to_listed(bucket, now, window)
            named = row.bucket == selection.tags if selection.alone else selection.tags.items() <= row.bucket.items()
            if named and (row.in_debt or not selection.in_debt):
                matched += 1
                yield row

    first = nsmallest(selection.limit, matching(), key=lambda row: (row.tokens_now, sorted(row.bucket.items())))
    return Buckets(first, matched - len(first), as_of)


_ROWS = 10_000

_COLUMNS = ("timestamp", "user_tag", "client_tag", "more_tags", "tokens", "quota", "burst", "max_debt_ms")
_BEFORE = {name: f"before_{name}" for name in ("updated_at", "set_back_to", "quota", "burst", "max_debt_ms")}

_LAST = """
    SELECT user_tag, client_tag, more_tags,
        CASE WHEN late."T" = last."T" THEN least(last."K", -late.less) ELSE last."K" END,
        last."T", last.rate, last.burst, last.max_debt_ms
    FROM (
        SELECT user_tag, client_tag, more_tags,
            max_by(last, struct_pack(newest, topic, "partition")) AS last, max(late) AS late
        FROM (
            SELECT user_tag, client_tag, coalesce(more_tags, MAP {}) AS more_tags, topic, "partition",
                max("timestamp") AS newest, max_by(
                {'K': tokens, 'T': greatest("at", bucket_at),
                'rate': CASE WHEN bucket_at > "at" THEN before_quota ELSE quota END,
                'burst': CASE WHEN bucket_at > "at" THEN before_burst ELSE burst END,
                'max_debt_ms': CASE WHEN bucket_at > "at" THEN before_max_debt_ms ELSE max_debt_ms END},
                "offset"
            ) AS last, max({'T': bucket_at, 'less': -tokens}) FILTER (bucket_at > "at") AS late
            FROM (
                SELECT *, epoch_ms("timestamp") AS "at",
                    CASE WHEN before_set_back_to IS NULL THEN before_updated_at END AS bucket_at
                FROM decisions
            )
            GROUP BY ALL
        )
        GROUP BY ALL
    )
"""
"""In a partition the offset decides, even where a clock stepped back (`jobs.audit.decisions.NEWEST`).

A late request has not changed T and the quota, and was charged after the one of another partition that has.
"""


def list_buckets(
    settings: Settings, selection: BucketSelection, clock: Callable[[], int], *, from_checkpoint: bool = False
) -> Buckets:
    """Return the selected buckets as of their last audited decisions.

    Without the audit's table, or with `from_checkpoint`, they are those of the newest finished batch of the enforcing
    query, for which Spark is started. All jobs may run at the same time.
    """
    if not from_checkpoint:
        with suppress(MissingTable):
            table = open_table(settings, DECISIONS)
            with read_errors(settings):
                as_of, window = table.newest("timestamp"), settings.quota.window
                return select_buckets(_audited(table), selection, clock(), window, as_of=as_of)
    check_store(settings)
    files = stored_files(settings)
    checkpoint = Checkpoint.read(files, ENFORCE, STATE_VERSION)
    if not checkpoint.commits:  # before Spark is started
        raise no_buckets_error(f"{files.root}/{checkpoint.folder}")
    from jobs.buckets.store import read_stored  # noqa: PLC0415 it imports Spark

    return read_stored(settings, lambda saved: select_buckets(saved, selection, clock(), settings.quota.window))


def describe_bucket(
    listed: ListedBucket | None, resolution: Resolution, now: int, mutations: int | None, window: Window
) -> DescribedBucket:
    """Return what a client may do now (epoch ms), by its quota at this time and its bucket, None if never charged."""
    limit = resolution.limit
    if limit is None:
        return DescribedBucket(at=now, mutations=mutations)
    quota, bucket = limit.quota, None
    if listed is not None and (resolution.reset_at is None or resolution.reset_at <= listed.updated_at):
        bucket = Bucket(listed.tokens, listed.updated_at, Quota(listed.rate, listed.burst, listed.max_debt_ms))
    burst, tokens = window.burst(quota.rate, quota.burst), tokens_at(now, bucket, limit, window)
    stored = bucket.tokens if bucket else tokens
    fits_in_ms = paid_in_ms = None
    if mutations is not None:
        fits_in_ms = throttle_ms(tokens - mutations, stored, quota.rate) if mutations <= burst else None
        charge = min(mutations, max(tokens, 0) - min_tokens(quota))
        paid_in_ms = throttle_ms(tokens - charge, stored, quota.rate)
    return DescribedBucket(
        at=now,
        bucket=dict(resolution.tags.items()),
        quota=quota,
        tokens=tokens,
        burst=burst,
        debt_ends_in_ms=throttle_ms(tokens, stored, quota.rate) if in_debt(tokens, stored) else 0,
        mutations=mutations,
        fits_in_ms=fits_in_ms,
        paid_in_ms=paid_in_ms,
    )


def _audited(table: AuditTable) -> Iterator[SavedBucket]:
    """Yield each bucket with the tokens after its last decision."""
    columns = {name: ds.field(name) for name in _COLUMNS}
    columns |= {name: ds.field("source", name) for name in Source.__struct_fields__}
    columns |= {column: ds.field("bucket_before", name) for name, column in _BEFORE.items()}
    charged = ds.field("quota").is_valid() & ds.field("tokens").is_valid()
    with bounded_duckdb() as db:
        db.register("decisions", table.dataset().scanner(columns=columns, filter=charged).to_reader())
        db.execute(_LAST)
        while rows := db.fetchmany(_ROWS):
            for user, client, more, *values in rows:
                yield SavedBucket(Tags(user, client, tuple(sorted((more or {}).items()))).key, *values)
