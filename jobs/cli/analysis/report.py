"""`mutation-quota report`: the recorded load and decisions as one page of HTML."""

from pathlib import Path
from typing import Annotated

import typer

from jobs.cli.options import ConfigFile, Overrides, Requests, read_settings
from jobs.cli.times import parse_period
from quota.callbacks.timeline import CallbackTimeline
from quota.errors import BadInput
from quota.settings import Settings


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
    requests: Requests = None,
    quotas: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="With --requests: what these quotas would have done."),
    ] = None,
    overrides: Overrides = None,
    config: ConfigFile = None,
) -> None:
    """Write one page of HTML on what the audit has kept: load, waits, tokens, quota changes, latency, dead letters.

    Or on the requests of a file, as observe import writes it: what the cluster answered to them, or would have.

    It needs no network to be opened, holds sums and no single requests, and takes the place of an earlier one.
    """
    first, end = parse_period(since, until)
    last = None if end is None else end - 1
    if quotas is not None and requests is None:
        raise BadInput(f"--quotas {quotas}: only with --requests; backtest tries quotas on what the audit has kept")
    settings = read_settings(context, overrides, config)
    from jobs.report.aggregation import ReportScope
    from jobs.report.writing import write_report
    from jobs.whatif.request_tables import request_tables

    scope = ReportScope(first, last, user)
    if requests is None:
        page = write_report(settings, scope, out, backtest)
    else:
        with request_tables(settings, requests, _read_quotas(settings, quotas)) as tables:
            page = write_report(settings, scope, out, backtest, tables)
    print(f"Wrote {out}: {sum(page.total.requests)} requests of {page.period}.")


def _read_quotas(settings: Settings, file: Path | None) -> CallbackTimeline | None:
    from jobs.whatif.quotas import read_quotas_of_file

    return None if file is None else read_quotas_of_file(file, settings.quota.callbacks)
