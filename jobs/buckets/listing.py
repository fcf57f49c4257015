"""Lists of buckets: who shares each, its tokens when it was last charged, and its tokens now."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from heapq import nsmallest
from typing import TYPE_CHECKING

from quota.algorithms.token_bucket import Bucket, in_debt, throttle_ms, tokens_at
from quota.errors import MutationQuotaError
from quota.records.entity import Tags
from quota.records.fields import BEGINNING
from quota.records.levels import Limit
from quota.records.quota_log import Quota, Window
from schemas.documents.quotas import Buckets, ListedBucket

if TYPE_CHECKING:  # it imports Spark, which the command line does without
    from jobs.buckets.saved import SavedBucket


@dataclass(frozen=True, slots=True)
class BucketQuery:
    """The filter and limit of a list."""

    tags: Mapping[str, str]
    """Tags that a bucket must have."""
    in_debt: bool
    """Whether to list only buckets in debt."""
    limit: int
    """The largest number of buckets to list."""

    @property
    def is_all(self) -> bool:
        """Whether the selection includes every bucket."""
        return not (self.tags or self.in_debt)


def no_buckets_error(folder: str) -> MutationQuotaError:
    """Return the error for a checkpoint without buckets."""
    return MutationQuotaError(
        f"there are no buckets in {folder}: enforce has not finished a batch yet; otherwise correct storage.root"
    )


def to_listed(saved: "SavedBucket", now: int, window: Window) -> ListedBucket:
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
    saved: "Iterable[SavedBucket]", query: BucketQuery, now: int, window: Window, *, as_of: int | None = None
) -> Buckets:
    """Return the selected buckets with their tokens at `now` (epoch ms), lowest first, then by name.

    At most the limit is held in memory.
    """
    matched = 0

    def matching() -> Iterator[ListedBucket]:
        nonlocal matched
        for bucket in saved:
            row = to_listed(bucket, now, window)
            if query.tags.items() <= row.bucket.items() and (row.in_debt or not query.in_debt):
                matched += 1
                yield row

    first = nsmallest(query.limit, matching(), key=_tokens_and_name)
    return Buckets(first, matched - len(first), as_of)


def _tokens_and_name(row: ListedBucket) -> tuple[float, list[tuple[str, str]]]:
    return row.tokens_now, sorted(row.bucket.items())
