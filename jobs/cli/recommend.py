"""`mutation-quota recommend`: computes quotas from the capacity of the controller and the load of tenants."""

import math
from typing import Annotated

import typer

from jobs.cli.options import FileOptions, PeriodOptions, Requests, SettingsOptions
from jobs.cli.output import OutputOptions
from quota.errors import BadInput
from quota.whatif.recommendation import Tenancy


def recommend(
    capacity: Annotated[float, typer.Option(metavar="N", help="Capacity of the controller, in mutations per second.")],
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
    reports their effect on the recorded requests. --output-file writes the quotas for quotas apply. Starts Spark, which
    takes about 15 s.

    Examples:
      mutation-quota recommend --capacity 100 --from -30d
      mutation-quota recommend --capacity 100 --output-file quotas.yaml
    """
    _check("--capacity", capacity, "mutations per second, above 0", is_valid=0 < capacity < math.inf)
    _check("--reserve", reserve, "a share of at least 0 and below 1", is_valid=0 <= reserve < 1)
    if over_allocation is not None:
        is_valid = 1 <= over_allocation < math.inf
        _check("--over-allocation", over_allocation, "a number of at least 1", is_valid=is_valid)
    first, last = period.parse()
    file.check(None if file.output_file is None else output)  # a recommendation takes minutes
    settings = where.read()
    from jobs.cli.recommend_text import print_advice
    from jobs.whatif.recommend import RecommendOptions
    from jobs.whatif.recommend import recommend as recommend_quotas
    from quota.timeline.quota_file import write_quota_file
    from quota.whatif.recommendation import SizingInput

    sizing = SizingInput(capacity, reserve, over_allocation, settings.quota.window)
    advice = recommend_quotas(settings, RecommendOptions(sizing, tenancy, first, last, requests))
    if file.output_file is not None:
        file.write(write_quota_file(advice.quotas))
        if file.to_stdout:
            return

    def report() -> None:
        print_advice(advice, tenancy, limit)
        if file.output_file is None:
            print("--output-file FILE writes these quotas for mutation-quota quotas apply.")
        else:
            print(
                f"Wrote {file.output_file}; preview it with: mutation-quota quotas apply {file.output_file} --dry-run"
            )

    output.print(advice, report, items="tenants")


def _check(option: str, value: float, expected: str, *, is_valid: bool) -> None:
    if not is_valid:  # NaN is always invalid, because it compares as false
        raise BadInput(f"{option} {value:g}: expected {expected}")
