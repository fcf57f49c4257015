"""`mutation-quota recommend`: computes quotas from the capacity of the controller and the load of tenants."""

import math
from collections.abc import Iterator
from typing import Annotated

import typer

from jobs.cli.options import FileOptions, PeriodOptions, Requests, SettingsOptions
from jobs.cli.output import OutputOptions, print_text, print_warnings
from jobs.cli.tables import Columns, print_rows
from quota.errors import BadInput
from quota.planning.warnings import session_warnings
from quota.records.quota_log import LIMIT_CONFIG
from quota.text import format_duration, plural
from quota.whatif.effects import Period
from quota.whatif.recommendation import Advice, Tenancy

_RULE_INDENT = len("4. over-allocation  ")
_MIN_WHOLE = 100
"""The lowest number that is printed without decimals."""

_COLUMNS: Columns = {
    "TENANT": "share.demand.entity",
    "REQUESTED": "share.demand.mutations",
    "NEED/S": lambda tenant: _significant(tenant.share.demand.need),
    "QUOTA/S": lambda tenant: _significant(tenant.share.quota),
    "MAX/TOPIC": "share.topic_limit",
    "REJECTED": "outlook.rejected",
    "BEFORE": "outlook.rejected_before",
    "THROTTLED": "outlook.throttled_seconds",
    "QUOTA": lambda tenant: "own" if tenant.share.own else "default",
}
_OPTIONAL = ("QUOTA", "MAX/TOPIC", "THROTTLED", "BEFORE", "REQUESTED")


def recommend(
    capacity: Annotated[
        float,
        typer.Option(
            metavar="N", help="Mutations per second that the controller can carry out, as `capacity` measures."
        ),
    ],
    reserve: Annotated[
        float,
        typer.Option(metavar="SHARE", help="Share of the capacity reserved for elections, failures and exempt users."),
    ] = 0.2,
    over_allocation: Annotated[
        float | None,
        typer.Option(metavar="X", help="Divide X times the available capacity. Default: computed from the loads."),
    ] = None,
    tenancy: Annotated[Tenancy, typer.Option("--by", help="What counts as a tenant.")] = Tenancy.USER,
    requests: Requests = None,
    *,
    period: PeriodOptions,
    limit: Annotated[
        int, typer.Option("--limit", min=0, metavar="N", help="Tenants to print, the busiest first.")
    ] = 20,
    file: FileOptions,
    output: OutputOptions,
    where: SettingsOptions,
) -> None:
    """Recommend quotas from recorded load.

    Computes quotas from the controller's capacity and from what tenants have requested, by the rules of KIP-599, and
    reports their effect on the recorded requests. --output-file writes the quotas for quotas apply.

    Examples:
      mutation-quota recommend --capacity 100 --from -30d
      mutation-quota recommend --capacity 100 --requests requests.jsonl --output-file quotas.yaml
    """
    _check("--capacity", capacity, "mutations per second, above 0", is_valid=0 < capacity < math.inf)
    _check("--reserve", reserve, "a share of at least 0 and below 1", is_valid=0 <= reserve < 1)
    if over_allocation is not None:
        is_valid = 1 <= over_allocation < math.inf
        _check("--over-allocation", over_allocation, "a number of at least 1", is_valid=is_valid)
    span = Period(*period.parse())
    file.check(None if file.output_file is None else output)  # a recommendation takes minutes
    settings = where.read()
    from jobs.whatif import evaluations
    from quota.planning.quota_file import write_quota_file
    from quota.whatif.recommendation import SizingInput

    sizing = SizingInput(capacity, reserve, over_allocation, settings.quota.window)
    advice = evaluations.recommend(settings, sizing, tenancy, span, requests)
    entities = (tenant.share.demand.entity for tenant in advice.tenants)
    print_warnings(session_warnings(entity.user for entity in entities if isinstance(entity.user, str)))
    if file.output_file is not None:
        file.write(write_quota_file(advice.quotas))
        if file.to_stdout:
            return

    def report() -> None:
        _print_advice(advice, tenancy, limit)
        if file.output_file is None:
            print_text("--output-file FILE writes these quotas for mutation-quota quotas apply.")
        else:
            print_text(
                f"Wrote {file.output_file}; preview it with: mutation-quota quotas apply {file.output_file} --dry-run"
            )

    output.print(advice, report, items="tenants")


def _check(option: str, value: float, expected: str, *, is_valid: bool) -> None:
    if not is_valid:  # NaN is always invalid, because it compares as false
        raise BadInput(f"{option} {value:g}: expected {expected}")


def _print_advice(advice: Advice, tenancy: Tenancy, tenants: int) -> None:
    for line in _rule_lines(advice):
        print_text(line, indent=_RULE_INDENT)
    if tenants:
        default = {"TENANT": tenancy.default, "QUOTA/S": _significant(advice.default), "MAX/TOPIC": advice.topic_limit}
        print_rows(advice.tenants[:tenants], _COLUMNS, optional=_OPTIONAL, last=default)
    left_out = len(advice.tenants) - tenants
    if tenants and left_out > 0:
        print(f"and {left_out} more; --limit N prints more of them, -o json all")
    for line in _outcome_lines(advice):
        print_text(line, indent=0)


def _rule_lines(advice: Advice) -> Iterator[str]:
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


def _outcome_lines(advice: Advice) -> Iterator[str]:
    rules, before, after = advice.rules, advice.before, advice.after
    yield (
        f"With these quotas {advice.rejected_share:.2%} of {after.admitted + after.rejected:,} mutations are rejected "
        f"({after.rejected:,}; {advice.before_name}: {before.rejected:,}), "
        f"and at most {after.peak:,} are admitted in a second ({advice.before_name}: {before.peak:,})."
    )
    yield (
        f"MAX/TOPIC is a proposal for {LIMIT_CONFIG}, which these quotas do not set: it rejects no recorded topic, "
        "nor one that a full bucket pays for."
    )
    yield (
        f"They add up to {_rounded(advice.quotas_sum)}/s, {_rounded(advice.quotas_sum / rules.capacity)} times the "
        f"capacity; the largest burst of a quota is {advice.largest_burst:,.0f} mutations, which take the controller "
        f"{format_duration(1000 * advice.largest_burst / rules.capacity)}."
    )


def _rounded(value: float) -> str:
    """Format a number with at least three significant digits."""
    return f"{value:,.0f}" if value >= _MIN_WHOLE else f"{value:.3g}"


def _significant(value: float) -> float:
    """Round a number to at least three significant digits."""
    return round(value) if value >= _MIN_WHOLE else float(f"{value:.3g}")
