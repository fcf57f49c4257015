"""Which quotas to set, by KIP-599's "How to Define the Quota?": docs/recommend.md has the rules in words.

All rates are in partition mutations per second.
"""

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, Context

import msgspec

from quota.algorithms.bucket import Window
from quota.records.entity import QuotaEntity

_DIGITS = 3
"""To which quotas are rounded up."""

_ROUND = Context(prec=_DIGITS, rounding=ROUND_CEILING)
_EXACT = ".12g"  # beyond that a float's digits are rounding


@dataclass(frozen=True, slots=True)
class SizingInput:
    """What the rules start from."""

    capacity: float
    """C: what the controller takes."""
    reserve: float
    """The share of it that is left to elections, broken brokers and whatever has no quota."""
    over_allocation: float | None
    """How many times what is available is given away; None for what the tenants' loads show."""
    window: Window


class Demand(msgspec.Struct, frozen=True):
    """What a tenant's recorded requests would have needed (`quota.whatif.required_quota.Need`)."""

    entity: QuotaEntity
    asked: int
    """Mutations."""
    largest: int
    """Mutations of the largest request."""
    need: float
    """The smallest quota by which none of them is refused."""
    load: float
    """The smallest quota by which the bucket is never in debt."""


class Share(msgspec.Struct, frozen=True):
    """What a tenant gets."""

    demand: Demand
    quota: float
    own: bool
    """Whether it takes a quota of its own; the others have the default."""


class Rules(msgspec.Struct, frozen=True):
    """The rules' numbers, in their order."""

    capacity: float
    reserve: float
    available: float
    """A = C * (1 - reserve)."""
    needs: float
    """Of all tenants, added up."""
    loads: float
    """Likewise."""
    load_together: float
    """Of all tenants as if they shared a bucket: less, as far as they do not act at once."""
    over_allocation: float
    measured: bool
    """Whether that is what the loads show, and was not given."""
    budget: float
    """A * over-allocation: what is given away."""
    median_need: float
    median_largest: float
    """Mutations of a tenant's largest request."""
    least: float
    """What nobody gets less than while there is enough, and the default counts with."""
    claims: float
    """Needs, none below the least nor above A, and the default's, added up."""
    headroom: float | None
    """How many times their claims all get, where those are within the budget."""
    most: float
    """What nobody gets more than: A, or an even share of what the small ones leave."""


class Recommendation(msgspec.Struct, frozen=True):
    """Quotas, and how they come about."""

    rules: Rules
    default: float
    """The quota of those who have none of their own."""
    shares: list[Share]
    """Those who asked for most come first."""


def divide_capacity(demands: Iterable[Demand], load_together: float, ground: SizingInput) -> Recommendation:
    """Divide what a controller can take among tenants.

    Args:
        demands: of each tenant; at least one, and each was charged for something.
        load_together: of all of them, as if they shared one bucket.
        ground: what the rules start from.
    """
    tenants = sorted(demands, key=lambda each: (-each.asked, each.entity.key))
    available = ground.capacity * (1 - ground.reserve)
    loads = sum(each.load for each in tenants)
    # No stretch of all together is heavier than the tenants' own ones added up.
    measured = max(loads / load_together, 1.0)
    over_allocation = measured if ground.over_allocation is None else ground.over_allocation
    budget = available * over_allocation

    median_need = statistics.median(each.need for each in tenants)
    median_largest = statistics.median(each.largest for each in tenants)
    least = min(max(median_need, median_largest / ground.window.burst(1)), available)
    claims = [least, *(min(max(each.need, least), available) for each in tenants)]
    enough = sum(claims) <= budget
    if enough:
        headroom, most = _level(budget, claims, [available] * len(claims)), available
        quotas = [min(headroom * each, most) for each in claims]
    else:
        headroom, most = None, _level(budget, [1.0] * len(claims), claims)
        quotas = [min(each, most) for each in claims]
    default, *others = (_rounded_up(each) for each in quotas)
    rules = Rules(
        ground.capacity,
        ground.reserve,
        available,
        sum(each.need for each in tenants),
        loads,
        load_together,
        over_allocation,
        ground.over_allocation is None,
        budget,
        median_need,
        median_largest,
        least,
        sum(claims),
        headroom,
        most,
    )
    shares = [Share(each, quota, quota > default) for each, quota in zip(tenants, others, strict=True)]
    return Recommendation(rules, default, shares)


def _level(budget: float, weights: Sequence[float], most: Sequence[float]) -> float:
    """How high a budget fills vessels of these widths, of which each holds so much at most (max-min fair)."""
    left, width = budget, sum(weights)
    full = 0.0
    for each, weight in sorted(zip(most, weights, strict=True), key=lambda pair: pair[0] / pair[1]):
        full = each / weight
        if full * width >= left:
            return left / width
        left -= each
        width -= weight
    return full


def _rounded_up(rate: float) -> float:
    """A rate to three significant digits, and not below it."""
    return float(_ROUND.create_decimal(f"{rate:{_EXACT}}"))
