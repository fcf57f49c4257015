"""`mutation-quota report`: writes the recorded load and decisions as one HTML page."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from jobs.cli.options import FileOptions, PeriodOptions, Requests, SettingsOptions, check_inputs
from jobs.cli.output import OutputOptions
from quota.errors import BadInput
from quota.text import format_time, plural

_DEFAULT_FILE = Path("report.html")


def report(
    span: PeriodOptions,
    user: Annotated[str | None, typer.Option("--user", metavar="NAME", help="Only this user's requests.")] = None,
    requests: Requests = None,
    quotas: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="With --requests: show what these quotas would have done; - for stdin."),
    ] = None,
    *,
    file: FileOptions,
    output: OutputOptions,
    where: SettingsOptions,
) -> None:
    """Write a report as one HTML page.

    It is the page of the dashboard with the decisions in the audit's tables, or with the requests of a file (from
    observe import) and the cluster's answers. It needs no network. The default file is report.html.

    Examples:
      mutation-quota report --from -24h
      mutation-quota report --user alice --output-file alice.html --force
    """
    scope = *span.parse(), user
    if quotas is not None and requests is None:
        raise BadInput(f"--quotas {quotas}: only with --requests; use backtest to try quotas on the audit's tables")
    check_inputs(requests, quotas)
    file = replace(file, output_file=file.output_file or _DEFAULT_FILE)
    file.check(output)
    settings = where.read()
    from jobs.dashboard.report import ReportScope, report_on_file, report_on_tables

    if requests is None:
        written = report_on_tables(settings, ReportScope(*scope))
    else:
        written = report_on_file(settings, requests, ReportScope(*scope), quotas)
    file.write(written.page)
    what = f"{plural(written.requests, 'request')} of {format_time(written.start)} to {format_time(written.end)}"
    file.print_written(output, what, requests=written.requests, start=written.start, end=written.end)
