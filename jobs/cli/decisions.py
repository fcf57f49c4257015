"""`mutation-quota decisions`: lists the decisions in the audit's tables."""

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from jobs.cli.options import Client, PeriodOptions, SettingsOptions, TopicName, User
from jobs.cli.output import OutputOptions, format_reach, print_text
from jobs.cli.tables import Columns, outcome, print_rows, sender
from schemas.documents.records import Decisions

if TYPE_CHECKING:
    from quota.records.decision import Decision


def _topics(decision: "Decision") -> str:
    names = [topic.name for topic in decision.topics]
    return f"{names[0]} and {len(names) - 1:,} more" if len(names) > 1 else "".join(names)


_COLUMNS: Columns = {
    "DECISION": "decision_id",
    "REQUESTED": "timestamp",
    "USER / CLIENT-ID": sender,
    "OPERATION": "operation",
    "TOPICS": _topics,
    "MUTATIONS": lambda decision: sum(topic.partitions for topic in decision.topics),
    "TOKENS": "tokens",
    "OUTCOME": outcome,
    "THROTTLED": "verdict.throttle_time_ms",
}
_OPTIONAL = ("TOKENS", "OPERATION", "THROTTLED", "MUTATIONS", "TOPICS")


def list_decisions(
    user: User = None,
    client: Client = None,
    topic: TopicName = None,
    rejected: Annotated[
        bool, typer.Option("--rejected", help="Only decisions that reject a topic, also in shadow mode.")
    ] = False,
    *,
    period: PeriodOptions,
    limit: Annotated[int, typer.Option(min=1, max=100_000, metavar="N", help="Print at most the N newest.")] = 20,
    output: OutputOptions,
    where: SettingsOptions,
) -> None:
    """List the newest audited decisions.

    Reads the audit's tables, which the audit appends to every audit.trigger_seconds. `mutation-quota explain` takes
    the ids.

    Examples:
      mutation-quota decisions list --user alice --rejected
      mutation-quota decisions list --from -1h --limit 1000 --output jsonl
    """
    settings = where.read()
    start, end = period.parse()
    from jobs.audit.decisions import AuditedDecisions, Selection
    from jobs.audit.reader import read_errors

    with read_errors(settings):
        audited = AuditedDecisions(settings)
        selection = Selection(user, client, topic, rejected, start, end)
        decisions = audited.latest(selection, limit)
        newest_at = audited.newest_at()

    if output.for_people and newest_at is not None and (end is None or newest_at < end):
        print_text(format_reach(newest_at), file=sys.stderr)
    output.print_found(
        Decisions(decisions, newest_at),
        lambda: print_rows(decisions, _COLUMNS, optional=_OPTIONAL),
        items="decisions",
        none="no such decisions" if selection != Selection() else "no decisions yet",
        selected=selection != Selection(),
    )
