"""Documents on quotas, callbacks, users' topics and buckets."""

import msgspec
from msgspec import UNSET, UnsetType

from quota.planning.cluster import Note, RateDifference
from quota.records.entity import QuotaEntity
from quota.records.quota_log import CallbackSetting, Quota, QuotaRecord
from quota.timeline.change import ScheduledChange
from quota.timeline.timeline import Level


class PlannedChange(msgspec.Struct, frozen=True):
    """The change of an entity's quota."""

    entity: QuotaEntity
    before: Quota | None
    """The quota before the change; null for none."""
    after: Quota | None
    """The quota after the change; null for none."""
    effective_at: int | None = None
    """The time at which the change takes effect, epoch ms; null in a plan for an immediate change."""
    cancelled: bool | UnsetType = UNSET
    """True for a change that was scheduled for that time, and is cancelled; absent for all others."""


class QuotaChanges(msgspec.Struct, frozen=True):
    """The output of `quotas alter`, `quotas apply` and `quotas rollback`."""

    applied: bool
    """Whether the changes were made; false for a dry run."""
    changes: list[PlannedChange]


class PulledQuotas(QuotaChanges, frozen=True):
    """The output of `quotas pull`, which writes a file or, with `--apply`, changes the log."""

    file: str | None = None
    """The file that was written; absent with --apply."""
    quota_count: int | None = None
    """The number of quotas in the file; absent with --apply."""


class CancelledChange(msgspec.Struct, frozen=True):
    """The output of `quotas cancel` and `callback cancel`."""

    entity: QuotaEntity | None
    """The entity whose scheduled change was cancelled; null for the callback."""
    effective_at: int
    """The time for which the change was scheduled, epoch ms."""


class PushedQuotas(msgspec.Struct, frozen=True):
    """The output of `quotas push`."""

    applied: bool
    """Whether the changes were made; false for a dry run."""
    changes: list[PlannedChange]
    """The changes of the cluster's quotas."""
    only_there: list[QuotaRecord]
    """Quotas of the cluster that the log never had; --prune removes them."""
    notes: list[Note]
    """The differences between the enforcement of the cluster and of this project."""


class QuotaDrift(msgspec.Struct, frozen=True):
    """The output of `quotas drift`."""

    differs: bool
    differences: list[RateDifference]


class ResolvedQuota(msgspec.Struct, frozen=True, kw_only=True):
    """The output of `quotas resolve`."""

    at: int
    """The time for which the quota is resolved, epoch ms."""
    exempt: bool
    """Whether the user is exempt (quota.exempt_users)."""
    level: int | None
    """The level that won; null if no level has a quota, or a callback decides."""
    entity: QuotaEntity | None
    """The entity whose quota applies; null for none."""
    quota: Quota | None
    """The quota that applies; null for unlimited."""
    burst: float | None
    """Partition mutations at once; null for unlimited."""
    since: int | None
    """The time from which the quota has been in force, epoch ms; null if unknown."""
    shadow: bool
    """Whether requests over the quota are only reported, and admitted."""
    bucket: dict[str, str] | None
    """The tags of the bucket that is charged; null for none."""
    reset_at: int | None
    """The time of the bucket's last reset, epoch ms; null for none."""
    callback: str | None
    """The class that decided; null for the eight levels."""
    levels: list[Level]
    """The levels, the most specific first."""
    scheduled: list[QuotaRecord]
    """The changes of the levels' quotas that are scheduled for later than `at`."""


class HistoryEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A record of the quota log; fields that its kind does not have are null."""

    offset: int
    timestamp: int
    """The time at which the change was written, epoch ms."""
    effective_at: int
    """The time at which the change takes effect, epoch ms."""
    kind: str
    """`quota`, `cancel`, `bucket_reset`, `callback`, `callback_cancel` or `cluster`."""
    entity: QuotaEntity | None = None
    before: Quota | None = None
    after: Quota | None = None
    bucket: dict[str, str] | None = None
    callback: CallbackSetting | None = None
    """The callback after the change; null for the one in the settings."""
    topic_count: int | None = None
    partition_count: int | None = None
    altered_by: str | None
    comment: str | None


class QuotaHistory(msgspec.Struct, frozen=True):
    """The output of `quotas history`."""

    changes: list[HistoryEntry]
    """The latest changes, oldest first."""
    left_out: int
    """The number of earlier changes that --limit left out."""


class ValidatedQuotas(msgspec.Struct, frozen=True):
    """The output of `quotas validate`."""

    file: str
    quota_count: int
    scheduled_count: int
    warnings: list[str]
    """How clients could evade the quotas."""


class ScheduledCallback(msgspec.Struct, frozen=True):
    """A scheduled change of the callback."""

    callback: CallbackSetting | None
    """The callback after the change; null for the one in the settings."""
    effective_at: int
    """The time at which it takes effect, epoch ms."""


class Callback(msgspec.Struct, frozen=True):
    """The output of `callback describe`."""

    callback: CallbackSetting
    scheduled: list[ScheduledCallback]


class AlteredCallback(msgspec.Struct, frozen=True):
    """The output of `callback alter`."""

    callback: CallbackSetting | None
    """The callback after the change; null for the one in the settings."""
    effective_at: int | None
    """The time at which it took effect, epoch ms; null if nothing had to change."""


class PublishedCluster(msgspec.Struct, frozen=True):
    """The output of `callback publish-metadata`."""

    applied: bool
    """Whether the metadata was written; false if it has not changed."""
    effective_at: int | None
    """The time at which it took effect, epoch ms; null if it has not changed."""
    topic_count: int
    partition_count: int


class UserTopic(msgspec.Struct, frozen=True):
    """The request topic of a user."""

    user: str
    topic: str
    acl: str
    """The kafka-acls.sh command that lets only this user write to it."""


class PreparedTopics(msgspec.Struct, frozen=True):
    """The output of `user-topics prepare`."""

    topics: list[UserTopic]


class ListedBucket(msgspec.Struct, frozen=True):
    """A bucket in a list; tokens are partition mutations."""

    bucket: dict[str, str]
    """The tags of the tenant that shares it (KIP-257)."""
    tokens: float
    """K at `updated_at`."""
    updated_at: int
    """The time of the bucket's newest decision; with --from-checkpoint T, when K was last changed; epoch ms."""
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


class DescribedBucket(msgspec.Struct, frozen=True, kw_only=True):
    """The output of `buckets describe`: what a client may do now; tokens are partition mutations, times epoch ms."""

    at: int
    bucket: dict[str, str] | None = None
    """The tags of the bucket (KIP-257); null if no quota applies to the client."""
    quota: Quota | None = None
    tokens: float | None = None
    """K now; null without a quota."""
    burst: float | None = None
    debt_ends_in_ms: int = 0
    """The time until a strict request is admitted; 0 without debt."""
    mutations: int | None = None
    """The mutations that were asked for; null if none were."""
    fits_in_ms: int | None = None
    """The time until the bucket has as many tokens; null if its burst is less, without a quota, or if not asked for."""
    paid_in_ms: int | None = None
    """The time until they are paid off if they are made as soon as they are admitted, also those beyond the burst."""
    last_hour: dict[str, int] = {}
    """The mutations that the bucket was charged in the last hour, the most first: by the client-ids of a user's bucket,
    and by the users of others. Empty without the audit."""
    scheduled: list[ScheduledChange] = []
    """The scheduled changes of the quotas that may apply, of the callback, and resets of the bucket."""


class ResetBuckets(msgspec.Struct, frozen=True):
    """The output of `buckets reset`."""

    bucket: dict[str, str]
    applied: bool
    """Whether they were reset; false for a dry run."""
    matching: int | None
    """For a dry run the number of buckets that match; else null."""
    effective_at: int | None
    """The time at which the reset takes effect, epoch ms; null for a dry run."""
