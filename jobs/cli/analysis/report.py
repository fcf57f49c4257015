"""`mutation-quota report`: the recorded load and decisions as one page of HTML."""

from pathlib import Path
from typing import Annotated

import typer

from jobs.cli.options import ConfigFile, Overrides, read_settings
from jobs.cli.times import parse_period
from quota.errors import BadInput


def report(
    context: typer.Context,
    since: Annotated[
        str | None, typer.Option("--from", metavar="TIME", help="From then on: ISO 8601, epoch ms, -2h.")
    ] = None,
    until: Annotated[str | None, typer.Option("--to", metavar="TIME", help="Before then; likewise.")] = None,
    user: Annotated[str | None, typer.Option("--user", metavar="NAME", help="This user's requests alone.")] = None,
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="The page to write.")] = Path("report.html"),
    backtest: Annotated[
        Path | None, typer.Option(metavar="FILE", help="What-if comparisons to show besides, of backtest --json.")
    ] = None,
    overrides: Overrides = None,
    config: ConfigFile = None,
) -> None:
    """Write one page of HTML on what the audit has kept: load, waits, tokens, quota changes, latency, dead letters.

    It needs no network to be opened, holds sums and no single requests, and takes the place of an earlier one.
    """
    first, end = parse_period(since, until)
    last = None if end is None else end - 1
    if first is not None and last is not None and last < first:
        raise BadInput(f"--from {since} --to {until}: there is no time between them")
    settings = read_settings(context, overrides, config)
    from jobs.report.aggregation import ReportScope
    from jobs.report.writing import write_report

    page = write_report(settings, ReportScope(first, last, user), out, backtest)
    print(f"Wrote {out}: {sum(page.total.requests)} requests of {page.period}.")
