"""Buckets as they are listed: who shares each, what it held when it was last charged, and what it holds now."""

import enum
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import nsmallest
from typing import Any

import msgspec

from jobs.buckets.saved import SavedBucket
from quota.algorithms.bucket import Bucket, Window, in_debt, throttle_ms, tokens_at
from quota.records.entity import Tags
from quota.records.fields import SINCE_EVER
from quota.records.quota import Limit, Quota


class Order(enum.Enum):
    """What a list is sorted by."""

    TOKENS = "tokens"
    FULL_IN = "full-in"
    UPDATED = "updated"
    RATE = "rate"
    NAME = "name"


@dataclass(frozen=True, slots=True)
class BucketQuery:
    """Which buckets are listed, in which order, and how many at most."""

    tags: Mapping[str, str]
    """Those that have all of these; all if there are none."""
    in_debt: bool
    """Only those that are."""
    order: Order
    limit: int

    @property
    def is_all(self) -> bool:
        """Whether each bucket is wanted."""
        return not (self.tags or self.in_debt)


class ListedBucket(msgspec.Struct, frozen=True):
    """A bucket in a list; tokens in partition mutations."""

    bucket: dict[str, str]
    """The tags of who shares it (KIP-257)."""
    tokens: float
    """K, as it was written at `updated_at`."""
    updated_at: int
    """T, epoch ms: when K was last written. What is refused, or costs nothing, leaves both as they were."""
    tokens_now: float
    """K by now, by the rate that the bucket was last used at."""
    rate: float
    """That rate, mutations/s. The quota may be another one since."""
    burst: float
    """B of that quota."""
    max_debt_ms: int | None
    """Its bound on debt; null for none."""
    in_debt: bool
    """Whether a strict request would be refused now."""
    debt_ends_in_ms: int
    """How long until it is not; 0 where there is no debt."""
    full_in_ms: int
    """How long until K is B; at most 2^31 - 1, as all throttle times are."""


@dataclass(frozen=True, slots=True)
class BucketList:
    """The first of the buckets that are wanted, and how many more there are."""

    buckets: Sequence[ListedBucket]
    left_out: int


def listed(saved: SavedBucket, now: int, window: Window) -> ListedBucket:
    """A bucket as of `now` (epoch ms)."""
    bucket = Bucket(saved.K, saved.T, saved.rate, saved.burst, saved.max_debt_ms)
    limit = Limit(Quota(saved.rate, saved.burst, saved.max_debt_ms), SINCE_EVER)
    burst = window.burst(saved.rate, saved.burst)
    tokens = tokens_at(now, bucket, limit, window)
    indebted = in_debt(tokens, saved.K)
    return ListedBucket(
        bucket=dict(Tags.of_key(saved.bucket).items()),
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


def bucket_list(saved: Iterable[SavedBucket], wanted: BucketQuery, now: int, window: Window) -> BucketList:
    """Those that are wanted, as of `now`; of however many no more than the limit are held."""
    matched = 0

    def matching() -> Iterator[ListedBucket]:
        nonlocal matched
        for each in saved:
            row = listed(each, now, window)
            if wanted.tags.items() <= row.bucket.items() and (row.in_debt or not wanted.in_debt):
                matched += 1
                yield row

    found = nsmallest(wanted.limit, matching(), key=_KEYS[wanted.order])
    return BucketList(found, matched - len(found))


def _name(row: ListedBucket) -> list[tuple[str, str]]:
    return sorted(row.bucket.items())


_KEYS: dict[Order, Callable[[ListedBucket], Any]] = {
    Order.TOKENS: lambda row: (row.tokens_now, _name(row)),
    Order.FULL_IN: lambda row: (-row.full_in_ms, _name(row)),
    Order.UPDATED: lambda row: (-row.updated_at, _name(row)),
    Order.RATE: lambda row: (-row.rate, _name(row)),
    Order.NAME: _name,
}
"""The lowest tokens first, the longest time, the latest change, the highest rate; then by name."""
