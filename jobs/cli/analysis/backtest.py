"""`mutation-quota backtest`: the effect that other quotas would have had."""

import sys
from typing import Annotated

import msgspec
import typer

from jobs.cli.options import ConfigFile, Json, Overrides, Requests, read_settings
from jobs.cli.times import parse_period


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
    from jobs.cli.analysis.backtest_text import print_result
    from jobs.whatif.backtest import backtest as run_backtest

    result = run_backtest(read_settings(context, overrides, config), candidate or [], first, last, requests)
    if as_json:
        sys.stdout.buffer.write(msgspec.json.encode(result) + b"\n")
    else:
        print_result(result, senders)
