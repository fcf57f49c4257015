"""The result of a backtest as text."""

import sys

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from quota.text import printable
from quota.whatif.result import Result, Totals

_WIDTH = 150
"""Characters of a line where the output is not a terminal."""

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


def print_result(result: Result, senders: int) -> None:
    """Print the totals of each candidate, and those of its busiest senders.

    Args:
        result: the result of the backtest.
        senders: the number of senders to print.
    """
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
    overall = _empty_table("")
    for outcome in result.outcomes:
        overall.add_row(Text(printable(outcome.name)), *_cells(outcome.load))
    console.print(overall)
    # After the recorded outcome comes the repetition, which adds nothing if all decisions are the same.
    is_repeated = repetition is not None and not repetition.differing
    detailed = [result.outcomes[0], *result.outcomes[2:]] if is_repeated else result.outcomes
    for outcome in detailed if senders else []:
        table = _empty_table(outcome.name)
        for sender in outcome.senders[:senders]:
            table.add_row(Text(f"{printable(sender.user)} / {printable(sender.client_id)}"), *_cells(sender.load))
        console.print(table)
        left_out = len(outcome.senders) - senders
        if left_out > 0:
            print(f"and {left_out} more; --senders N prints more of them, --json all")


def _empty_table(title: str) -> Table:
    table = Table(title=Text(printable(title)), box=box.SIMPLE_HEAD)
    for column in _COLUMNS:
        table.add_column(column, justify="right")
    return table


def _cells(load: Totals) -> list[str]:
    counts = (load.requests, load.refused_requests, load.admitted, load.refused)
    seconds, others = load.throttled_seconds, (load.peak, load.newly_admitted, load.newly_refused)
    return [*(f"{each:,}" for each in counts), f"{seconds:,.1f}", *(f"{each:,}" for each in others)]
