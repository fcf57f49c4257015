"""A comparison with a cluster's own answers as text."""

import sys
from collections.abc import Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from quota.text import format_time, printable
from quota.whatif.comparison import Comparison, Disagreement
from quota.whatif.kafka_bucket import Difference

_WIDTH = 150
"""Characters of a line where the output is not a terminal."""


def comparison_json(found: Comparison) -> dict[str, Any]:
    """Return the comparison for programs."""
    return {
        "requests": found.requests,
        "limited": found.limited,
        "agreeing": found.agreeing,
        "refused_by_both": found.refused_by_both,
        "differing": found.differing,
        "unexplained": found.unexplained,
        "causes": dict(found.causes.most_common()),
        "differences": found.shown,
    }


def print_comparison(found: Comparison, examples: int) -> None:
    """Print how many requests were answered alike, and the others by cause, with examples."""
    console = Console(highlight=False, width=None if sys.stdout.isatty() else _WIDTH)
    print(
        f"{found.requests:,} requests were observed; {found.limited:,} of them have a quota: {found.agreeing:,} were "
        f"answered alike ({found.refused_by_both:,} of these refused), {found.differing:,} otherwise."
    )
    if not found.limited:
        print("None of the quotas is for their users and client-ids: are these the brokers' own?")
    if not found.differing:
        return
    causes = Table("why", "requests", box=box.SIMPLE_HEAD)
    for cause, count in found.causes.most_common():
        causes.add_row(Text(_described(cause)), f"{count:,}")
    console.print(causes)
    if examples:
        console.print(_table(found.shown[:examples]))
    if found.differing > examples:
        print(f"and {found.differing - examples:,} more; --examples N prints more of them, --json up to 1,000")
    print("What Kafka does otherwise, and why: docs/explanation/differences-from-kafka.md.")


def _described(cause: str) -> str:
    is_rule = cause in {each.value for each in Difference}
    return f"{cause.replace('`', '')} (differences-from-kafka.md)" if is_rule else cause


def _table(differences: Sequence[Disagreement]) -> Table:
    table = Table("received", "user / client-id", "request", "cluster", "here", "why", box=box.SIMPLE_HEAD)
    for each in differences:
        topics = f"{len(each.topics)} topics" if len(each.topics) > 1 else printable(each.topics[0])
        table.add_row(
            format_time(each.at),
            Text(f"{printable(each.user)} / {printable(each.client_id)}"),
            Text(f"{each.operation} {topics}, {sum(each.partitions):,} partitions"),
            _answer(each.cluster_error_codes, each.cluster_throttle_ms),
            _answer(each.our_error_codes, each.our_throttle_ms),
            Text(", ".join(each.causes).replace("`", "")),
        )
    return table


def _answer(codes: Sequence[int], throttle_ms: int) -> str:
    refused = sum(map(bool, codes))
    wait = f", {throttle_ms:,} ms" if throttle_ms else ""
    return f"{refused} of {len(codes)} refused{wait}" if refused else f"admitted{wait}"
