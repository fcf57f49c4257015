"""`mutation-quota backtest`: the effect that different quotas would have had."""

from typing import Annotated

import typer

from jobs.cli.options import PeriodOptions, Requests, SettingsOptions
from jobs.cli.output import OutputOptions


def backtest(
    candidate: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=VALUE,...",
            help="What to try: quotas=FILE (YAML as for quotas apply, or JSON lines), window-num=S, "
            "window-size-seconds=W, algorithm=sampled-rate or spread-rate, name=NAME. Everything else is as "
            "recorded. Repeatable.",
        ),
    ] = None,
    requests: Requests = None,
    *,
    period: PeriodOptions,
    limit: Annotated[
        int, typer.Option("--limit", min=0, metavar="N", help="Users and client-ids to print, the busiest first.")
    ] = 10,
    output: OutputOptions,
    where: SettingsOptions,
) -> None:
    """Replay recorded requests against different quotas.

    Reports who would have been refused and the resulting controller load, for different quotas, windows or algorithms.
    Reads the audit's tables, or a file of requests, which is compared with a cluster without quotas. The requests are
    replayed as recorded, although clients that are refused more or less often might have sent different ones.
    Starts Spark, which takes about 15 s.

    Examples:
      mutation-quota backtest --candidate quotas=tight.yaml --from -7d
      mutation-quota backtest --candidate window-num=100,name=long -o json
    """
    first, last = period.parse()
    from jobs.cli.backtest_text import print_result
    from jobs.whatif.backtest import backtest as run_backtest

    result = run_backtest(where.read(), candidate or [], first, last, requests)
    output.print(result, lambda: print_result(result, limit), items="outcomes")
