"""`mutation-quota decisions`: lists the decisions in the audit's tables."""

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from jobs.cli.options import Client, PeriodOptions, SettingsOptions, TopicName, User
from jobs.cli.output import OutputOptions, print_table, print_text, table_time
from jobs.cli.wording import format_outcome, format_reach
from quota.text import format_duration, format_tokens
from schemas.documents.records import Decisions

if TYPE_CHECKING:
    from quota.records.decision import Decision

_COLUMNS = (
    "DECISION",
    "REQUESTED",
    "USER / CLIENT-ID",
    "OPERATION",
    "TOPICS",
    "MUTATIONS",
    "TOKENS",
    "OUTCOME",
    "THROTTLED",
)
_NUMBERS = ("MUTATIONS", "TOKENS", "THROTTLED")
_SENTENCES = ("USER / CLIENT-ID", "TOPICS", "OUTCOME")
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
    from jobs.audit.tables.reader import read_errors

    with read_errors(settings):
        audited = AuditedDecisions(settings)
        selection = Selection(user, client, topic, rejected, start, end)
        decisions = audited.latest(selection, limit)
        newest_at = audited.newest_at()

    def table() -> None:
        print_table(_COLUMNS, map(_row, decisions), numbers=_NUMBERS, sentences=_SENTENCES, optional=_OPTIONAL)

    if output.for_people and newest_at is not None and (end is None or newest_at < end):
        print_text(format_reach(newest_at), file=sys.stderr)
    output.print_found(
        Decisions(decisions, newest_at),
        table,
        items="decisions",
        none="no such decisions" if selection != Selection() else "no decisions yet",
        selected=selection != Selection(),
    )


def _row(decision: "Decision") -> tuple[str, ...]:
    topics = decision.topics
    others = f" and {len(topics) - 1:,} more" if len(topics) > 1 else ""
    return (
        decision.decision_id,
        table_time(decision.timestamp),
        f"{decision.user} / {decision.client_id}",
        decision.operation.value,
        f"{topics[0].name}{others}" if topics else "-",
        f"{sum(topic.partitions for topic in topics):,}",
        "-" if decision.tokens is None else format_tokens(decision.tokens),
        format_outcome(decision),
        format_duration(decision.verdict.throttle_time_ms),
    )
