"""The output of `recommend`: the recommended quotas, and the result of a backtest of them."""

from collections.abc import Iterable

import msgspec

from quota.records.entity import QuotaEntity
from quota.records.quota_log import QuotaRecord, Window
from quota.whatif.recommendation import Recommendation, Rules, Share, Tenancy
from quota.whatif.result import CandidateOutcome, Result, Totals


class Outlook(msgspec.Struct, frozen=True):
    """The outcome of a tenant's requests under the recommended quotas."""

    rejected: int
    throttled_seconds: float
    """The time for which its senders are throttled; overlapping throttle times of one sender count once."""
    rejected_before: int
    """The mutations that were rejected when they were recorded; 0 without quotas."""


class TenantAdvice(msgspec.Struct, frozen=True):
    """A tenant, its quota, and the outcome of its requests if all recommended quotas are set."""

    share: Share
    outlook: Outlook


class Advice(msgspec.Struct, frozen=True):
    """Recommended quotas, the numbers that result in them, and their effect."""

    rules: Rules
    default: float
    """The default quota, for tenants without their own [mutations/s]."""
    tenants: list[TenantAdvice]
    """The tenants, those with the most requested mutations first."""
    before_name: str
    """The name of the outcome that these quotas are compared with: as recorded, or without quotas."""
    before: Totals
    """The totals before, of all requests including those of exempt users."""
    after: Totals
    rejected_share: float
    """The share of the requested mutations that is rejected."""
    quotas_sum: float
    """The sum of all tenants' quotas and the default [mutations/s]."""
    largest_burst: float
    """The largest burst of a tenant [mutations]."""
    quotas: list[QuotaRecord]
    """The quotas for `quotas apply`, each with its numbers in a comment."""


def make_advice(
    recommendation: Recommendation, result: Result, tenancy: Tenancy, exempt_users: frozenset[str], window: Window
) -> Advice:
    """Combine quotas with their backtest."""
    before, after = result.outcomes
    sums_before, sums_after = (_sums_by_tenant(outcome, tenancy, exempt_users) for outcome in (before, after))
    tenants = [
        TenantAdvice(share, Outlook(*sums_after[share.demand.entity], sums_before[share.demand.entity][0]))
        for share in recommendation.shares
    ]
    requested = after.load.admitted + after.load.rejected
    rates = [recommendation.default, *(share.quota for share in recommendation.shares)]
    return Advice(
        recommendation.rules,
        recommendation.default,
        tenants,
        before.name,
        before.load,
        after.load,
        after.load.rejected / requested if requested else 0.0,
        sum(rates),
        window.burst(max(rates)),
        list(_commented_records(recommendation, tenants, tenancy)),
    )


def quota_records(recommendation: Recommendation, tenancy: Tenancy) -> list[QuotaRecord]:
    """Return the records that set the quotas, without comments."""
    own = [QuotaRecord(share.demand.entity, share.quota) for share in recommendation.shares if share.own]
    return [QuotaRecord(tenancy.default, recommendation.default), *own]


def _commented_records(
    recommendation: Recommendation, tenants: Iterable[TenantAdvice], tenancy: Tenancy
) -> Iterable[QuotaRecord]:
    rules = recommendation.rules
    comments = {tenancy.default: f"for all others: median need {rules.median_need:.3g}/s"}
    for tenant in tenants:
        demand = tenant.share.demand
        rejected = tenant.outlook.rejected
        comments[demand.entity] = (
            f"need {demand.need:.3g}/s; {rejected} of {demand.mutations} mutations rejected in the backtest"
        )
    for record in quota_records(recommendation, tenancy):
        yield msgspec.structs.replace(record, comment=comments[record.entity])


def _sums_by_tenant(
    outcome: CandidateOutcome, tenancy: Tenancy, exempt_users: frozenset[str]
) -> dict[QuotaEntity, tuple[int, float]]:
    """Return the rejected mutations and the throttled seconds of each tenant."""
    sums: dict[QuotaEntity, tuple[int, float]] = {}
    for sender in outcome.senders:
        if sender.user not in exempt_users:
            entity = tenancy.entity(sender.user, sender.client_id)
            rejected, seconds = sums.get(entity, (0, 0.0))
            sums[entity] = (rejected + sender.load.rejected, seconds + sender.load.throttled_seconds)
    return sums
