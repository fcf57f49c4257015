"""`mutation-quota backtest`: the effect that different quotas would have had."""

from typing import Annotated

import typer

from jobs.cli.options import PeriodOptions, Requests, SettingsOptions
from jobs.cli.output import OutputOptions, print_text
from jobs.cli.tables import Columns, print_rows, sender
from quota.text import printable
from quota.whatif.effects import Period
from quota.whatif.evaluation import Result

_COLUMNS: Columns = {
    "REQUESTS": "load.requests",
    "REJECTED": "load.rejected_requests",
    "ADMITTED MUTATIONS": "load.admitted",
    "REJECTED MUTATIONS": "load.rejected",
    "THROTTLED": "load.throttled_seconds",
    "PEAK/S": "load.peak",
    "NEWLY ADMITTED": "load.newly_admitted",
    "NEWLY REJECTED": "load.newly_rejected",
}
_OPTIONAL = ("REQUESTS", "PEAK/S", "REJECTED", "ADMITTED MUTATIONS", "THROTTLED")


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

    Reports who would have been rejected and the resulting controller load, for different quotas, windows or algorithms.
    Reads the audit's tables, or a file of requests, which is compared with a cluster without quotas. The requests are
    replayed as recorded, although clients that are rejected more or less often might have sent different ones.

    Examples:
      mutation-quota backtest --candidate quotas=tight.yaml --from -7d
      mutation-quota backtest --candidate window-num=100,name=long -o json
    """
    span = Period(*period.parse())
    settings = where.read()
    from jobs.whatif import evaluations

    result = evaluations.backtest(settings, candidate or [], span, requests)
    output.print(result, lambda: _print_result(result, limit), items="outcomes")


def _print_result(result: Result, limit: int) -> None:
    replay = result.replay
    if replay is None:
        print_text("The requests of a file have no decisions; each is compared with a cluster without quotas.")
    elif replay.differing:
        print_text(f"The recorded quotas reproduce all but {replay.differing} of {replay.decisions} decisions, such as")
        for example in replay.examples:
            print_text(f"  {example.decision_id}: {', '.join(example.fields)}")
        print_text("The tables may not reach back to the first request, or settings may have changed.")
    else:
        print_text(f"The recorded quotas reproduce all {replay.decisions:,} recorded decisions exactly.")
    print()
    print_rows(result.outcomes, {"CANDIDATE": "name", **_COLUMNS}, optional=_OPTIONAL)
    # The second outcome is the replay, which adds nothing if all decisions are the same.
    is_repeated = replay is not None and not replay.differing
    detailed = [result.outcomes[0], *result.outcomes[2:]] if is_repeated else result.outcomes
    for outcome in detailed if limit else []:
        print(f"\n{printable(outcome.name)}, by user / client-id:")
        print_rows(outcome.senders[:limit], {"SENDER": sender, **_COLUMNS}, optional=_OPTIONAL)
        left_out = len(outcome.senders) - limit
        if left_out > 0:
            print(f"and {left_out} more; --limit N prints more of them, -o json all")
