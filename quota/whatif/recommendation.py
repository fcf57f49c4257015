"""Recommended quotas by KIP-599's "How to Define the Quota?"; docs/how-to/recommend.md has the rules in words.

All rates are in partition mutations per second.
"""

import enum
import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, Context

import msgspec
from msgspec import UNSET

from quota.records.decision import Decision
from quota.records.entity import QuotaEntity
from quota.records.quota_log import QuotaRecord, Window
from quota.whatif.effects import CandidateOutcome, Totals
from quota.whatif.evaluation import Result
from quota.whatif.required_quota import RequiredQuota

_ROUND = Context(prec=3, rounding=ROUND_CEILING)
_EXACT = ".12g"  # the digits of a float beyond that are rounding errors


class Tenancy(enum.Enum):
    """The names of a request that identify its tenant, which has its own quota (KIP-257)."""

    USER = "user"
    CLIENT = "client"
    USER_CLIENT = "user-client"

    def entity(self, user: str | None, client_id: str | None) -> QuotaEntity:
        """Return the entity whose quota applies to a request."""
        by_user, by_client = self is not Tenancy.CLIENT, self is not Tenancy.USER
        return QuotaEntity(user if by_user else UNSET, client_id if by_client else UNSET)

    @property
    def default(self) -> QuotaEntity:
        """The entity of the default quota, for tenants without their own quota."""
        return self.entity(None, None)


@dataclass(frozen=True, slots=True)
class SizingInput:
    """The input of the rules besides the tenants' demands."""

    capacity: float
    """The capacity C of the controller."""
    reserve: float
    """The share of it reserved for elections, failed brokers and requests without a quota."""
    over_allocation: float | None
    """The factor by which the available capacity is over-allocated; None to derive it from the tenants' loads."""
    window: Window


class Demand(msgspec.Struct, frozen=True):
    """The quota that a tenant's recorded requests require (`quota.whatif.required_quota.RequiredQuota`)."""

    entity: QuotaEntity
    mutations: int
    largest: int
    """The mutations of the largest request."""
    need: float
    """The smallest quota under which none of them is rejected."""
    load: float
    """The smallest quota under which the bucket is never in debt."""
    largest_topic: int
    """The mutations of the largest topic."""


class Share(msgspec.Struct, frozen=True):
    """The recommended quota of a tenant."""

    demand: Demand
    quota: float
    own: bool
    """Whether the tenant needs its own quota; the others have the default."""
    topic_limit: int
    """The proposed `max_request_mutations`: the burst, or the largest recorded topic if that is more [mutations]."""


class SizingNumbers(msgspec.Struct, frozen=True):
    """The numbers of the rules, in the order of the rules."""

    capacity: float
    reserve: float
    available: float
    """A = C * (1 - reserve)."""
    needs: float
    """The sum of the tenants' needs."""
    loads: float
    """The sum of the tenants' loads."""
    load_together: float
    """The load of all tenants as if they shared a bucket; less than the sum if they do not act at the same time."""
    over_allocation: float
    measured: bool
    """Whether the over-allocation was derived from the loads, not given."""
    budget: float
    """A * over-allocation: the rate to divide."""
    median_need: float
    median_largest: float
    """The median of the tenants' largest requests [mutations]."""
    least: float
    """The minimum quota if there is enough for all, and the claim of the default."""
    claims: float
    """The sum of the needs, each at least `least` and at most A, and the default's claim."""
    headroom: float | None
    """The factor by which every claim is multiplied, if the sum of claims is within the budget."""
    most: float
    """The maximum quota: A, or an even share of the rate that small tenants leave."""


class Recommendation(msgspec.Struct, frozen=True):
    """Recommended quotas, and the numbers that result in them."""

    rules: SizingNumbers
    default: float
    """The default quota, for tenants without their own."""
    shares: list[Share]
    """The tenants, those with the most requested mutations first."""


def measure_demands(
    decisions: Iterable[Decision], tenancy: Tenancy, exempt_users: frozenset[str], window: Window
) -> tuple[list[Demand], float]:
    """Return the demand of each tenant that was charged, and the load of all tenants together.

    The decisions of a bucket are in its order.
    """
    together, tenants = RequiredQuota(window), dict[QuotaEntity, RequiredQuota]()
    for decision in decisions:
        costs = decision.costs
        if costs and decision.user not in exempt_users:
            entity = tenancy.entity(decision.user, decision.client_id)
            if entity not in tenants:
                tenants[entity] = RequiredQuota(window)
            for required in (tenants[entity], together):
                required.add(decision.timestamp, costs)
    demands = [
        Demand(
            entity, required.charged, required.largest, required.no_rejection, required.no_debt, required.largest_topic
        )
        for entity, required in tenants.items()
        if required.charged
    ]
    return demands, together.no_debt


def divide_capacity(demands: Iterable[Demand], load_together: float, sizing: SizingInput) -> Recommendation:
    """Divide the capacity of a controller among tenants."""
    tenants = sorted(demands, key=lambda tenant: (-tenant.mutations, tenant.entity.key))
    available = sizing.capacity * (1 - sizing.reserve)
    loads = sum(tenant.load for tenant in tenants)
    # The load of all together is at most the sum of the loads; rounding must not make the factor less than 1.
    measured = max(loads / load_together, 1.0)
    over_allocation = measured if sizing.over_allocation is None else sizing.over_allocation
    budget = available * over_allocation

    median_need = statistics.median(tenant.need for tenant in tenants)
    median_largest = statistics.median(tenant.largest for tenant in tenants)
    least = min(max(median_need, median_largest / sizing.window.burst(1)), available)
    claims = [least, *(min(max(tenant.need, least), available) for tenant in tenants)]
    enough = sum(claims) <= budget
    if enough:
        headroom, most = _fill_level(budget, claims, [available] * len(claims)), available
        quotas = [min(headroom * claim, most) for claim in claims]
    else:
        headroom, most = None, _fill_level(budget, [1.0] * len(claims), claims)
        quotas = [min(claim, most) for claim in claims]
    default, *others = (_round_up(quota) for quota in quotas)
    rules = SizingNumbers(
        sizing.capacity,
        sizing.reserve,
        available,
        sum(tenant.need for tenant in tenants),
        loads,
        load_together,
        over_allocation,
        sizing.over_allocation is None,
        budget,
        median_need,
        median_largest,
        least,
        sum(claims),
        headroom,
        most,
    )
    shares = [
        Share(tenant, quota, quota > default, _topic_limit(sizing.window.burst(quota), tenant))
        for tenant, quota in zip(tenants, others, strict=True)
    ]
    return Recommendation(rules, default, shares)


def _topic_limit(burst: float, *tenants: Demand) -> int:
    """Return the limit of a topic that rejects no recorded one, nor any that a full bucket pays for."""
    return max(math.ceil(burst), *(tenant.largest_topic for tenant in tenants), 1)


def _fill_level(budget: float, widths: Sequence[float], limits: Sequence[float]) -> float:
    """Return the level L at which sum(min(L * width, limit)) equals the budget (weighted max-min fairness)."""
    remaining, width_left = budget, sum(widths)
    level = 0.0
    for limit, width in sorted(zip(limits, widths, strict=True), key=lambda pair: pair[0] / pair[1]):
        level = limit / width
        if level * width_left >= remaining:
            return remaining / width_left
        remaining -= limit
        width_left -= width
    return level


def _round_up(rate: float) -> float:
    """Round a rate up to three significant digits."""
    return float(_ROUND.create_decimal(f"{rate:{_EXACT}}"))


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

    rules: SizingNumbers
    default: float
    """The default quota, for tenants without their own [mutations/s]."""
    topic_limit: int
    """The proposed `max_request_mutations` of the default [mutations]."""
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
    with_default = (share.demand for share in recommendation.shares if not share.own)
    return Advice(
        recommendation.rules,
        recommendation.default,
        _topic_limit(window.burst(recommendation.default), *with_default),
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
