"""Prints a recommendation as text."""

from collections.abc import Iterator

from jobs.cli.output import print_table
from quota.text import plural
from quota.whatif.advice import Advice, TenantAdvice
from quota.whatif.recommendation import Tenancy

_MIN_WHOLE = 100
"""The lowest number that is printed without decimals."""

_COLUMNS = ("REQUESTED", "NEED/S", "QUOTA/S", "REFUSED", "BEFORE", "THROTTLED S")


def print_advice(advice: Advice, tenancy: Tenancy, tenants: int) -> None:
    """Print the rules with their numbers, the busiest tenants, and the effects."""
    for line in rule_lines(advice):
        print(line)
    if tenants:
        rows = [
            *map(_row, advice.tenants[:tenants]),
            [str(tenancy.default), "", "", _rounded(advice.default), *[""] * 4],
        ]
        print_table(("TENANT", *_COLUMNS, "QUOTA"), rows, numbers=_COLUMNS)
    left_out = len(advice.tenants) - tenants
    if tenants and left_out > 0:
        print(f"and {left_out} more; --limit N prints more of them, -o json all")
    for line in outcome_lines(advice):
        print(line)


def rule_lines(advice: Advice) -> Iterator[str]:
    """Yield the rules of docs/how-to/recommend.md in their order, with their numbers; rates in mutations/s."""
    rules, count = advice.rules, len(advice.tenants)
    yield f"1. capacity         {_rounded(rules.capacity)}/s, as given"
    yield f"2. available        {_rounded(rules.available)}/s: {rules.reserve:.0%} is the reserve"
    yield (
        f"3. needs            {_rounded(rules.needs)}/s for {plural(count, 'tenant')} together; nobody gets less than "
        f"{_rounded(rules.least)}/s (the median need is {_rounded(rules.median_need)}/s, the median tenant's "
        f"largest request {_rounded(rules.median_largest)} mutations)"
    )
    how = (
        f"their loads add up to {_rounded(rules.loads)}/s, and peak at {_rounded(rules.load_together)}/s together"
        if rules.measured
        else "as given"
    )
    budget = f"so {_rounded(rules.budget)}/s are divided"
    yield f"4. over-allocation  factor {_rounded(rules.over_allocation)}, {how}; {budget}"
    claimed = f"{_rounded(rules.claims)}/s are claimed, including the default"
    if rules.headroom is None:
        yield f"5. division         {claimed}: more than available, so nobody gets more than {_rounded(rules.most)}/s"
    else:
        yield (
            f"5. division         {claimed}: all get {_rounded(rules.headroom)} times what they claim, "
            f"and nobody more than {_rounded(rules.most)}/s"
        )


def outcome_lines(advice: Advice) -> Iterator[str]:
    """Yield the effects of the quotas, from a backtest of them."""
    rules, before, after = advice.rules, advice.before, advice.after
    yield (
        f"With these quotas {advice.refused_share:.2%} of {after.admitted + after.refused:,} mutations are refused "
        f"({after.refused:,}; {advice.before_name}: {before.refused:,}), "
        f"and at most {after.peak:,} are admitted in a second ({advice.before_name}: {before.peak:,})."
    )
    yield (
        f"They add up to {_rounded(advice.quotas_sum)}/s, {_rounded(advice.quotas_sum / rules.capacity)} times the "
        f"capacity; the largest burst is {advice.largest_burst:,.0f} mutations, which take the controller "
        f"{_rounded(advice.largest_burst / rules.capacity)} s."
    )


def _rounded(value: float) -> str:
    """Format a number with at least three significant digits."""
    return f"{value:,.0f}" if value >= _MIN_WHOLE else f"{value:.3g}"


def _row(each: TenantAdvice) -> list[str]:
    demand, outlook = each.share.demand, each.outlook
    return [
        str(demand.entity),
        f"{demand.mutations:,}",
        _rounded(demand.need),
        _rounded(each.share.quota),
        f"{outlook.refused:,}",
        f"{outlook.refused_before:,}",
        f"{outlook.throttled_seconds:,.1f}",
        "own" if each.share.own else "default",
    ]
