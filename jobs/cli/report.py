"""`mutation-quota report`: writes the recorded load and decisions as one HTML page."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from jobs.cli.options import FileOptions, PeriodOptions, Requests, SettingsOptions, check_inputs
from jobs.cli.output import OutputOptions
from quota.errors import BadInput
from quota.text import plural
from schemas.documents.records import WrittenReport

_DEFAULT_FILE = Path("report.html")


def report(
    span: PeriodOptions,
    user: Annotated[str | None, typer.Option("--user", metavar="NAME", help="Only this user's requests.")] = None,
    backtest: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also show the output of backtest --output json.")
    ] = None,
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

    The page shows load, throttle times, tokens, quota changes, latency and dead letters from the audit's tables, or the
    requests of a file (from observe import) and the cluster's answers. It needs no network, and contains totals, not
    single requests. The default file is report.html.

    Examples:
      mutation-quota report --from -24h
      mutation-quota report --user alice --output-file alice.html --force
    """
    first, end = span.parse()
    last = None if end is None else end - 1
    if quotas is not None and requests is None:
        raise BadInput(f"--quotas {quotas}: only with --requests; use backtest to try quotas on the audit's tables")
    check_inputs(requests, quotas, backtest)
    file = replace(file, output_file=file.output_file or _DEFAULT_FILE)
    file.check(output)
    settings = where.read()
    from jobs.report.aggregation import ReportScope
    from jobs.report.page import Origin, make_report
    from jobs.whatif.candidates import read_quotas_of_file
    from jobs.whatif.request_tables import request_tables

    scope = ReportScope(first, last, user)
    if requests is None:
        page, figures = make_report(settings, scope, backtest)
    else:
        tried = None if quotas is None else read_quotas_of_file(quotas, settings.quota.callbacks)
        file_name = "standard input" if str(requests) == "-" else requests
        quotas_name = "standard input" if str(quotas) == "-" else quotas
        origin = Origin(
            f"Of the requests in {file_name}, and the cluster's answers to them."
            if tried is None
            else f"Of the requests in {file_name}, as the quotas in {quotas_name} would have decided them.",
            what_if=tried is not None,
        )
        with request_tables(settings, requests, tried) as tables:
            page, figures = make_report(settings, scope, backtest, (origin, tables))
    file.write(page)
    if file.to_stdout:
        return
    count, period = sum(figures.total.requests), figures.period
    output.print(
        WrittenReport(str(file.output_file), count, period.start, period.end),
        lambda: print(f"Wrote {file.output_file}: {plural(count, 'request')} of {period}."),
    )
