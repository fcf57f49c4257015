"""`mutation-quota recommend`: quotas from the capacity of the controller and the load of tenants."""

import math
import sys
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from jobs.cli.options import (
    ConfigFile,
    Json,
    Overrides,
    Requests,
    check_new_file,
    read_settings,
    write_new_file,
)
from jobs.cli.times import parse_period
from quota.errors import BadInput
from quota.whatif.tenancy import Tenancy


def recommend(
    context: typer.Context,
    capacity: Annotated[
        float | None, typer.Option(metavar="N", help="What the controller takes, in mutations a second.")
    ] = None,
    experiment: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The same, as make experiment has measured it: experiment.json.")
    ] = None,
    reserve: Annotated[
        float, typer.Option(metavar="SHARE", help="Of the capacity, for elections, broken brokers, and who is exempt.")
    ] = 0.2,
    over_allocation: Annotated[
        float | None,
        typer.Option(metavar="X", help="Give away so many times what there is; by default as the tenants' loads show."),
    ] = None,
    tenancy: Annotated[Tenancy, typer.Option("--by", help="Whose quotas.")] = Tenancy.USER,
    requests: Requests = None,
    since: Annotated[str | None, typer.Option("--from", metavar="TIME", help="By requests from then on.")] = None,
    until: Annotated[str | None, typer.Option("--to", metavar="TIME", help="And up to then.")] = None,
    output: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the quotas there, for quotas apply; a new file.")
    ] = None,
    tenants: Annotated[int, typer.Option(min=0, metavar="N", help="How many of the busiest to print.")] = 20,
    as_json: Json = False,
    overrides: Overrides = None,
    config: ConfigFile = None,
) -> None:
    """Recommend quotas by what the controller can take and what tenants have asked for, and tell what follows.

    The rules are those of KIP-599, and are told with their numbers.
    """
    source, controller_rate = _read_capacity(capacity, experiment)
    _check("--reserve", reserve, "a share from 0 to below 1", is_valid=0 <= reserve < 1)
    if over_allocation is not None:
        is_valid = 1 <= over_allocation < math.inf
        _check("--over-allocation", over_allocation, "a number of at least 1", is_valid=is_valid)
    first, last = parse_period(since, until)
    check_new_file("--output", output)  # before the minutes that a recommendation takes
    settings = read_settings(context, overrides, config)
    from jobs.cli.analysis.recommendation_text import print_advice
    from jobs.whatif.recommend import RecommendOptions
    from jobs.whatif.recommend import recommend as recommend_quotas
    from quota.timeline.quota_file import write_quota_file
    from quota.whatif.recommendation import SizingInput

    sizing = SizingInput(controller_rate, reserve, over_allocation, settings.quota.window)
    advice = recommend_quotas(settings, RecommendOptions(sizing, tenancy, first, last, requests))
    if as_json:
        sys.stdout.buffer.write(msgspec.json.encode(advice) + b"\n")
    else:
        print_advice(advice, source, tenancy, tenants)
    if output is None:
        if not as_json:
            print("--output FILE writes these quotas for mutation-quota quotas apply.")
        return
    write_new_file("--output", output, write_quota_file(advice.quotas))
    if not as_json:
        print(f"Wrote {output}; mutation-quota quotas apply {output} --dry-run shows what it changes.")


def _read_capacity(given: float | None, experiment: Path | None) -> tuple[str, float]:
    """Return the origin of the controller's capacity, and the capacity in mutations/s."""
    if given is not None and experiment is None:
        _check("--capacity", given, "mutations a second, above 0", is_valid=0 < given < math.inf)
        return "as given", given
    if experiment is None or given is not None:
        raise BadInput("what can the controller take? give either --capacity or --experiment")
    from jobs.whatif.capacity import read_capacity_file

    measured = read_capacity_file(experiment)
    figures = f"{measured.created_per_second:,.0f} created and {measured.deleted_per_second:,.0f} deleted"
    return f"by {experiment}, the lower of {figures}", measured.capacity


def _check(option: str, value: float, expected: str, *, is_valid: bool) -> None:
    if not is_valid:  # NaN is valid nowhere: it compares as false
        raise BadInput(f"{option} {value:g}: expected {expected}")
