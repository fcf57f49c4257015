"""Documents on buckets."""

import msgspec


class ListedBucket(msgspec.Struct, frozen=True):
    """A bucket in a list; tokens are partition mutations."""

    bucket: dict[str, str]
    """The tags of the tenant that shares it (KIP-257)."""
    tokens: float
    """K at `updated_at`."""
    updated_at: int
    """The time of the bucket's last decision; with --from-checkpoint T, when K was last changed; epoch ms."""
    tokens_now: float
    """K now, at the rate that the bucket was last used at."""
    rate: float
    """That rate, mutations/s. The quota may have changed since."""
    burst: float
    """B at that rate."""
    max_debt_ms: int | None
    """Its maximum debt, ms; null for none."""
    in_debt: bool
    """Whether a strict request would be rejected now."""
    debt_ends_in_ms: int
    """The time until the debt is paid; 0 without debt."""
    full_in_ms: int
    """The time until K = B; at most 2^31 - 1, like all throttle times."""


class Buckets(msgspec.Struct, frozen=True):
    """The output of `buckets list`."""

    buckets: list[ListedBucket]
    """The buckets, those with the lowest tokens first."""
    left_out: int
    """The number of further buckets that --limit left out."""
    as_of: int | None
    """The time of the newest decision in the audit's table, epoch ms; null for buckets of the checkpoint."""


class BucketReset(msgspec.Struct, frozen=True):
    """The output of `buckets reset`."""

    bucket: dict[str, str]
    applied: bool
    """Whether they were reset; false for a dry run."""
    matching: int | None
    """For a dry run the number of buckets that match; else null."""
    effective_at: int | None
    """The time at which the reset takes effect, epoch ms; null for a dry run."""


class ExportedBuckets(msgspec.Struct, frozen=True):
    """The output of `buckets export` that writes a file."""

    file: str
    bucket_count: int
