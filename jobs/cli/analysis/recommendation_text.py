"""A recommendation, for people."""

import sys
from collections.abc import Iterator

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from quota.whatif.advice import Advice
from quota.whatif.tenancy import Tenancy

_WIDTH = 150
_EXACT_FROM = 100  # rates from here on have no digits behind the point
_COLUMNS = ("asked for", "need 1/s", "quota 1/s", "refused", "before", "throttled s")


def print_advice(advice: Advice, source: str, tenancy: Tenancy, tenants: int) -> None:
    """Print the rules with their numbers, the busiest tenants, and what follows.

    Args:
        advice: all of it.
        source: who says what the controller takes.
        tenancy: who a tenant is.
        tenants: how many to print.
    """
    for line in rule_lines(advice, source):
        print(line)
    if tenants:
        Console(highlight=False, width=None if sys.stdout.isatty() else _WIDTH).print(_table(advice, tenancy, tenants))
    left = len(advice.tenants) - tenants
    if tenants and left > 0:
        print(f"and {left} more; --tenants N prints more of them, --json all")
    for line in outcome_lines(advice):
        print(line)


def rule_lines(advice: Advice, source: str) -> Iterator[str]:
    """The rules of docs/recommend.md in their order, each with its numbers; rates in mutations/s."""
    rules, count = advice.rules, len(advice.tenants)
    yield f"1. capacity         {rate(rules.capacity)}/s, {source}"
    yield f"2. available        {rate(rules.available)}/s: {rules.reserve:.0%} are kept in reserve"
    yield (
        f"3. needs            {rate(rules.needs)}/s of {count:,} tenants together; nobody gets less than "
        f"{rate(rules.least)}/s (the median need is {rate(rules.median_need)}/s, the median tenant's largest request "
        f"{rate(rules.median_largest)} mutations)"
    )
    how = (
        f"their loads add up to {rate(rules.loads)}/s, and come to {rate(rules.load_together)}/s at once"
        if rules.measured
        else "as given"
    )
    yield f"4. over-allocation  {rate(rules.over_allocation)} times, {how}; so {rate(rules.budget)}/s are divided"
    claimed = f"{rate(rules.claims)}/s are claimed, the default's included"
    if rules.headroom is None:
        yield f"5. division         {claimed}: more than there is, so nobody gets more than {rate(rules.most)}/s"
    else:
        yield (
            f"5. division         {claimed}: all get {rate(rules.headroom)} times what they claim, "
            f"and nobody more than {rate(rules.most)}/s"
        )


def outcome_lines(advice: Advice) -> Iterator[str]:
    """What a backtest of the quotas says."""
    rules, before, after = advice.rules, advice.before, advice.after
    yield (
        f"By these quotas {advice.refused_share:.2%} of {after.admitted + after.refused:,} mutations are refused "
        f"({after.refused:,}; {advice.got}: {before.refused:,}), and at most {after.peak:,} are admitted in a second "
        f"({advice.got}: {before.peak:,})."
    )
    yield (
        f"They add up to {rate(advice.quotas_sum)}/s, {rate(advice.quotas_sum / rules.capacity)} times the capacity; "
        f"the largest burst is {advice.largest_burst:,.0f} mutations, which take the controller "
        f"{rate(advice.largest_burst / rules.capacity)} s."
    )


def rate(value: float) -> str:
    """A number to three digits, as people read it."""
    return f"{value:,.0f}" if value >= _EXACT_FROM else f"{value:.3g}"


def _table(advice: Advice, tenancy: Tenancy, tenants: int) -> Table:
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("tenant")
    for column in _COLUMNS:
        table.add_column(column, justify="right")
    table.add_column("by")
    for each in advice.tenants[:tenants]:
        demand, outlook = each.share.demand, each.outlook
        table.add_row(
            Text(str(demand.entity)),  # a name may look like markup
            f"{demand.asked:,}",
            rate(demand.need),
            rate(each.share.quota),
            f"{outlook.refused:,}",
            f"{outlook.refused_before:,}",
            f"{outlook.throttled_seconds:,.1f}",
            "its own" if each.share.own else "the default",
        )
    table.add_row(Text(str(tenancy.default)), "", "", rate(advice.default))
    return table
