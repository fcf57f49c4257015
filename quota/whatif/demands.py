"""The demands of tenants: the quotas that their recorded requests require."""

from collections.abc import Iterable

from quota.records.decision import Decision
from quota.records.entity import QuotaEntity
from quota.records.quota import Window
from quota.whatif.recommendation import Demand, Tenancy
from quota.whatif.required_quota import RequiredQuota


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
        Demand(entity, required.charged, required.largest, required.no_rejection, required.no_debt)
        for entity, required in tenants.items()
        if required.charged
    ]
    return demands, together.no_debt
