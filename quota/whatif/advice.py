"""All that `recommend` says: the recommended quotas, and what a backtest of them comes to."""

from collections.abc import Iterable

import msgspec

from quota.algorithms.bucket import Window
from quota.records.entity import QuotaEntity
from quota.records.quota_log import QuotaRecord
from quota.whatif.recommendation import Recommendation, Rules, Share
from quota.whatif.result import CandidateOutcome, Result, Totals
from quota.whatif.tenancy import Tenancy


class Outlook(msgspec.Struct, frozen=True):
    """What becomes of a tenant's requests; mutations."""

    refused: int
    throttled_seconds: float
    """In which its senders had been told to wait; of each sender, times that overlap count once."""
    refused_before: int
    """As they were recorded; 0 without quotas."""


class TenantAdvice(msgspec.Struct, frozen=True):
    """A tenant, its quota, and what becomes of its requests by all quotas that are recommended."""

    share: Share
    outlook: Outlook


class Advice(msgspec.Struct, frozen=True):
    """Quotas, how they come about, and what follows."""

    rules: Rules
    default: float
    """The quota of those who have none of their own, mutations/s."""
    tenants: list[TenantAdvice]
    """Those who asked for most come first."""
    got: str
    """What is called that the requests got."""
    before: Totals
    """As it was, of all requests, those of exempt users included."""
    after: Totals
    """By these quotas."""
    refused_share: float
    """Of the mutations that were asked for."""
    quotas_sum: float
    """Of all tenants and the default, mutations/s."""
    largest_burst: float
    """Mutations that one tenant can make at once."""
    quotas: list[QuotaRecord]
    """For `quotas apply`: each with its numbers for a comment."""


def make_advice(
    recommendation: Recommendation, result: Result, tenancy: Tenancy, exempt_users: frozenset[str], window: Window
) -> Advice:
    """Put quotas and their backtest together.

    Args:
        recommendation: the quotas.
        result: of judging by them, after what was.
        tenancy: who a tenant is.
        exempt_users: who have no quota.
        window: S and W.
    """
    before, after = result.outcomes
    was, will_be = (_by_tenant(each, tenancy, exempt_users) for each in (before, after))
    tenants = [
        TenantAdvice(each, Outlook(*will_be[each.demand.entity], was[each.demand.entity][0]))
        for each in recommendation.shares
    ]
    asked = after.load.admitted + after.load.refused
    rates = [recommendation.default, *(each.quota for each in recommendation.shares)]
    return Advice(
        recommendation.rules,
        recommendation.default,
        tenants,
        before.name,
        before.load,
        after.load,
        after.load.refused / asked if asked else 0.0,
        sum(rates),
        window.burst(max(rates)),
        list(_records(recommendation, tenants, tenancy)),
    )


def quota_records(recommendation: Recommendation, tenancy: Tenancy) -> list[QuotaRecord]:
    """The quotas alone, to be tried."""
    own = [QuotaRecord(each.demand.entity, each.quota) for each in recommendation.shares if each.own]
    return [QuotaRecord(tenancy.default, recommendation.default), *own]


def _records(
    recommendation: Recommendation, tenants: Iterable[TenantAdvice], tenancy: Tenancy
) -> Iterable[QuotaRecord]:
    rules = recommendation.rules
    comments = {tenancy.default: f"for all others: median need {rules.median_need:.3g}/s"}
    for each in tenants:
        demand = each.share.demand
        comments[demand.entity] = (
            f"need {demand.need:.3g}/s; {each.outlook.refused} of {demand.asked} mutations refused in the backtest"
        )
    for record in quota_records(recommendation, tenancy):
        yield msgspec.structs.replace(record, comment=comments[record.entity])


def _by_tenant(
    outcome: CandidateOutcome, tenancy: Tenancy, exempt_users: frozenset[str]
) -> dict[QuotaEntity, tuple[int, float]]:
    """Mutations refused and seconds throttled, of a tenant's senders together."""
    sums: dict[QuotaEntity, tuple[int, float]] = {}
    for sender in outcome.senders:
        if sender.user not in exempt_users:
            entity = tenancy.entity(sender.user, sender.client_id)
            refused, seconds = sums.get(entity, (0, 0.0))
            sums[entity] = (refused + sender.load.refused, seconds + sender.load.throttled_seconds)
    return sums
