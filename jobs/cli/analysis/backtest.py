"""`mutation-quota backtest`: what other quotas would have come to."""

import sys
from typing import Annotated

import msgspec
import typer
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from jobs.cli.options import ConfigFile, Json, Overrides, Requests, settings_of
from jobs.cli.times import parse_period
from quota.text import printable
from quota.whatif.result import Result, Totals

_WIDTH = 150

_COLUMNS = (
    "requests",
    "refused",
    "mutations admitted",
    "refused",
    "throttled s",
    "peak 1/s",
    "newly admitted",
    "newly refused",
)


def backtest(
    context: typer.Context,
    candidate: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=VALUE,...",
            help="What to try: quotas=FILE (YAML as of quotas apply, or JSON lines as of simulate), window-num=S, "
            "window-size-seconds=W, algorithm=sampled-rate or spread-rate, name=NAME; the rest is as recorded. "
            "Several times for several.",
        ),
    ] = None,
    requests: Requests = None,
    since: Annotated[
        str | None, typer.Option("--from", metavar="TIME", help="Count from then on: ISO 8601, epoch ms, -2h.")
    ] = None,
    until: Annotated[str | None, typer.Option("--to", metavar="TIME", help="Count up to then; likewise.")] = None,
    senders: Annotated[
        int, typer.Option(min=0, metavar="N", help="How many of the busiest users and client-ids to print.")
    ] = 10,
    as_json: Json = False,
    overrides: Overrides = None,
    config: ConfigFile = None,
) -> None:
    """Judge the audited requests again, by other quotas, windows or algorithms, and say what would have been different.

    Or those of a file, which is compared with a cluster that has no quotas; it needs neither Kafka nor tables.

    Requests come as they came: clients that are refused less, or more, might have sent others.
    """
    first, last = parse_period(since, until)
    from jobs.whatif.backtest import backtest as judge_again

    result = judge_again(settings_of(context, overrides, config), candidate or [], first, last, requests)
    if as_json:
        sys.stdout.buffer.write(msgspec.json.encode(result) + b"\n")
    else:
        _print(result, senders)


def _print(result: Result, senders: int) -> None:
    console = Console(highlight=False, width=None if sys.stdout.isatty() else _WIDTH)
    repetition = result.repetition
    if repetition is None:
        print("Requests of a file were never decided; each is compared with a cluster that has no quotas.")
    elif repetition.differing:
        print(f"The recorded quotas give {repetition.differing} of {repetition.decisions} decisions otherwise, such as")
        for each in repetition.examples:
            print(f"  {each.decision_id}: {', '.join(each.fields)}")
        print("The tables may not reach back to the first request, or settings were others then.")
    else:
        print(f"The recorded quotas give all {repetition.decisions} recorded decisions again, to the last digit.")
    overall = _table("")
    for outcome in result.outcomes:
        overall.add_row(Text(printable(outcome.name)), *_cells(outcome.load))
    console.print(overall)
    # What comes out as it was recorded need not be told twice.
    repeats = repetition is not None and not repetition.differing
    told = [result.outcomes[0], *result.outcomes[2:]] if repeats else result.outcomes
    for outcome in told if senders else []:
        table = _table(outcome.name)
        for sender in outcome.senders[:senders]:
            table.add_row(Text(f"{printable(sender.user)} / {printable(sender.client_id)}"), *_cells(sender.load))
        console.print(table)
        left = len(outcome.senders) - senders
        if left > 0:
            print(f"and {left} more; --senders N prints more of them, --json all")


def _table(name: str) -> Table:
    table = Table(title=Text(printable(name)), box=box.SIMPLE_HEAD)
    for column in _COLUMNS:
        table.add_column(column, justify="right")
    return table


def _cells(load: Totals) -> list[str]:
    counts = (load.requests, load.refused_requests, load.admitted, load.refused)
    seconds, others = load.throttled_seconds, (load.peak, load.newly_admitted, load.newly_refused)
    return [*(f"{each:,}" for each in counts), f"{seconds:,.1f}", *(f"{each:,}" for each in others)]
