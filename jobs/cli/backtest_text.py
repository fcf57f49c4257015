"""Prints the result of a backtest as text."""

from collections.abc import Iterable

from jobs.cli.output import print_table
from quota.text import printable
from quota.whatif.result import Result, Totals

_COLUMNS = (
    "REQUESTS",
    "REFUSED",
    "ADMITTED MUTATIONS",
    "REFUSED MUTATIONS",
    "THROTTLED S",
    "PEAK/S",
    "NEWLY ADMITTED",
    "NEWLY REFUSED",
)
"""The headings of `Totals`."""


def print_result(result: Result, limit: int) -> None:
    """Print the totals of each candidate, and those of its busiest senders."""
    replay = result.replay
    if replay is None:
        print("The requests of a file have no decisions; each is compared with a cluster without quotas.")
    elif replay.differing:
        print(f"The recorded quotas reproduce all but {replay.differing} of {replay.decisions} decisions, such as")
        for each in replay.examples:
            print(f"  {each.decision_id}: {', '.join(each.fields)}")
        print("The tables may not reach back to the first request, or settings may have changed.")
    else:
        print(f"The recorded quotas reproduce all {replay.decisions} recorded decisions exactly.")
    print()
    _print("CANDIDATE", ((outcome.name, outcome.load) for outcome in result.outcomes))
    # The second outcome is the replay, which adds nothing if all decisions are the same.
    is_repeated = replay is not None and not replay.differing
    detailed = [result.outcomes[0], *result.outcomes[2:]] if is_repeated else result.outcomes
    for outcome in detailed if limit else []:
        print(f"\n{printable(outcome.name)}, by user / client-id:")
        _print("SENDER", ((f"{each.user} / {each.client_id}", each.load) for each in outcome.senders[:limit]))
        left_out = len(outcome.senders) - limit
        if left_out > 0:
            print(f"and {left_out} more; --limit N prints more of them, -o json all")


def _print(heading: str, rows: Iterable[tuple[str, Totals]]) -> None:
    print_table((heading, *_COLUMNS), ((name, *_cells(load)) for name, load in rows), numbers=_COLUMNS)


def _cells(load: Totals) -> list[str]:
    counts = (load.requests, load.refused_requests, load.admitted, load.refused)
    seconds, others = load.throttled_seconds, (load.peak, load.newly_admitted, load.newly_refused)
    return [*(f"{each:,}" for each in counts), f"{seconds:,.1f}", *(f"{each:,}" for each in others)]
