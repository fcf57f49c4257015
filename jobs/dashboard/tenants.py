"""The tenants and the state of their buckets; all clients that share a bucket are one tenant."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec

from jobs.dashboard.decisions import NAME_CHARS
from jobs.metrics.totals import LastDecision, MutationCounts
from quota.admission.policy import Policy
from quota.admission.resolve import resolve_quota
from quota.algorithms.token_bucket import Bucket, tokens_at
from quota.callbacks.timeline import CallbackTimeline
from quota.errors import BadRecord
from quota.explanation.explanation_text import format_shares
from quota.records.decision import Decision
from quota.records.levels import Limit, Resolution
from quota.records.quota_log import Window
from quota.text import format_tags, legible

_PARTS = 60
"""The number of parts of the time that is kept, by which old counts are dropped."""

MAX_TENANTS = 5000
_MAX_SENDERS = 50
"""The number of senders that each part counts by name, because clients can make up client-ids."""
_OTHERS = "(others)"


class BucketLevel(msgspec.Struct, frozen=True):
    """The state of a bucket at one time, which determines its tokens until the next decision.

    At `now` it has min(tokens + (now - at) / 1000 * rate, burst) tokens.
    """

    tokens: float
    at: int
    """The time [epoch ms]."""
    rate: float
    burst: float


class TenantRow(msgspec.Struct, frozen=True):
    """A tenant as the page shows it; names are in their display form."""

    key: str
    user: str
    """The user of the bucket; `*` for all."""
    client: str
    name: str
    """A description of the bucket, with the tags of a callback."""
    level: BucketLevel | None
    """None if no quota applies now."""
    entity: str
    """The entity of the quota; empty if a callback returned the quota, or there is none."""
    tags: tuple[str, str]
    """User and client-id of the bucket in the form of records; empty for all."""
    shadow: bool
    retry_at: int
    """The time until which a sender is throttled [epoch ms]."""
    admitted: int
    """The effective mutations of the time that is kept."""
    rejected: int
    senders: str
    """Who made the admitted ones, with their shares, if the bucket is shared."""


@dataclass(slots=True)
class _Tenant:
    """A tenant with its counts in each part of the time that is kept."""

    last: LastDecision
    """The last decision of the bucket, without its topics."""
    seq: int = 0
    retry_at: int = 0
    parts: dict[int, Counter[str | None]] = field(default_factory=dict)
    """The effective mutations of each part: those admitted by the names of their senders, those rejected by None."""
    row: TenantRow | None = None
    is_stale: bool = True

    def counts(self, newest: int) -> tuple[dict[str, int], int]:
        """Return the effective mutations that were admitted, by sender, and the number of those that were rejected."""
        for part in [counted for counted in self.parts if counted <= newest - _PARTS]:
            del self.parts[part]
        counts = Counter[str | None]()
        for counted in self.parts.values():
            counts.update(counted)
        admitted = {name: count for name, count in counts.most_common() if name is not None}
        return admitted, counts[None]


class Tenants:
    """A bounded number of tenants by the keys of their buckets, because clients can make up client-ids."""

    def __init__(self, window: Window, policy: Policy, now: int, kept_ms: int) -> None:
        """Start without tenants at `now` (epoch ms)."""
        self._window = window
        self._policy = policy
        self._tenants: dict[str, _Tenant] = {}
        self._kept_ms = kept_ms
        self._part = self._part_of(now)
        self.left_out = 0
        """The number of tenants that were dropped because there were too many."""

    def record(self, key: str, decision: Decision, counts: MutationCounts, seq: int) -> None:
        """Add a decision to the counts of its tenant, whose bucket has this key."""
        bare = msgspec.structs.replace(decision, topics=[], shadow=None, repeats=None, observed=None)
        tenant = self._tenants.get(key)
        if tenant is None:
            if len(self._tenants) >= MAX_TENANTS:
                self._drop_quietest()
            tenant = self._tenants[key] = _Tenant(LastDecision(bare))
        tenant.last.add(bare)
        tenant.seq, tenant.is_stale = seq, True
        part = tenant.parts.setdefault(self._part_of(decision.timestamp), Counter())
        part[None] += counts.mutations_rejected
        if counts.mutations_admitted:
            sender = (decision.client_id if decision.tags.user else decision.user)[:NAME_CHARS]
            part[sender if sender in part or len(part) <= _MAX_SENDERS else _OTHERS] += counts.mutations_admitted
        if decision.retry_at > decision.timestamp and decision.observed is None:
            tenant.retry_at = max(tenant.retry_at, decision.retry_at)

    def _part_of(self, moment: int) -> int:
        return moment * _PARTS // self._kept_ms

    def refresh(self, now: int, quotas: CallbackTimeline, seq: int, *, changed: bool) -> None:
        """Compute the rows that decisions or a quota change affect, and drop tenants whose requests are too old."""
        oldest = now - self._kept_ms
        for key in [key for key, tenant in self._tenants.items() if max(_last_at(tenant), tenant.retry_at) < oldest]:
            del self._tenants[key]
        part = self._part_of(now)
        changed = changed or part != self._part  # the counts have changed
        self._part = part
        for key, tenant in self._tenants.items():
            if tenant.is_stale or changed:
                row = self._row(key, tenant, now, quotas)
                if row != tenant.row:
                    tenant.row, tenant.seq = row, seq
                tenant.is_stale = False

    def rows(self, is_shown: Callable[..., bool]) -> list[tuple[int, TenantRow]]:
        """Return the rows whose names `is_shown` accepts, each with the state change that has changed it last."""
        return [
            (tenant.seq, row)
            for tenant in self._tenants.values()
            if (row := tenant.row) is not None and is_shown(row.name, row.user, row.client)
        ]

    def charged(self, key: str) -> dict[str, int]:
        """Return the admitted mutations of a bucket in the time that is kept, by sender, the most first."""
        tenant = self._tenants.get(key)
        return tenant.counts(self._part)[0] if tenant else {}

    def _row(self, key: str, tenant: _Tenant, now: int, quotas: CallbackTimeline) -> TenantRow:
        last = tenant.last.decision
        tags = last.tags
        resolution = self._resolve(last, now, quotas)
        level = self._level(last, resolution, now)
        entity = last.quota_entity if resolution is None else resolution.entity
        admitted, rejected = tenant.counts(self._part)
        return TenantRow(
            key,
            legible(tags.user) if tags.user else "*",
            legible(tags.client_id) if tags.client_id else "*",
            format_tags(dict(tags.items())) or "all without a quota",
            level,
            str(entity) if entity is not None and level else "",
            (tags.user, tags.client_id),
            bool(resolution and resolution.shadow),
            tenant.retry_at,
            sum(admitted.values()),
            rejected,
            format_shares(admitted) if len(admitted) > 1 else "",
        )

    def _resolve(self, last: Decision, now: int, quotas: CallbackTimeline) -> Resolution | None:
        """Return the current quota of the last sender; None if it belongs to another bucket or is unknown."""
        try:
            resolution = resolve_quota(last.user, last.client_id, max(now, last.timestamp), quotas, self._policy)
        except BadRecord:  # the callback fails
            return None
        return resolution if resolution.limit is None or resolution.tags == last.tags else None

    def _level(self, last: Decision, resolution: Resolution | None, now: int) -> BucketLevel | None:
        quota = last.applied_quota
        if quota is None or last.tokens is None or (resolution is not None and resolution.limit is None):
            return None
        bucket = Bucket.after(last)
        limit = resolution.limit if resolution and resolution.limit else Limit(quota, last.timestamp)
        rate, burst = limit.quota.rate, self._window.burst(limit.quota.rate, limit.quota.burst)
        if resolution and resolution.reset_at is not None and resolution.reset_at > last.timestamp:
            return BucketLevel(burst, resolution.reset_at, rate, burst)
        at = max(min(limit.since, now), bucket.updated_at) if bucket.differs(limit.quota) else bucket.updated_at
        return BucketLevel(tokens_at(at, bucket, limit, self._window), at, rate, burst)

    def _drop_quietest(self) -> None:
        """Drop a tenth of the tenants: those whose last decisions are the oldest."""
        oldest = sorted(self._tenants, key=lambda key: _last_at(self._tenants[key]))[: MAX_TENANTS // 10]
        for key in oldest:
            del self._tenants[key]
        self.left_out += len(oldest)


def _last_at(tenant: _Tenant) -> int:
    return tenant.last.decision.timestamp
