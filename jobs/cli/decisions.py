"""`mutation-quota decisions` and `mutation-quota explain`: the decisions in the audit's tables."""

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

import typer

from jobs.cli.options import Client, PeriodOptions, SettingsOptions, TopicName, User
from jobs.cli.output import OutputOptions, print_text
from jobs.cli.tables import Columns, outcome, print_rows, sender
from quota.errors import BadInput
from quota.kafka.timing import HOUR_MS, now_ms
from quota.records.reason import DECIDED, Reason
from quota.text import format_tags, format_time
from schemas.documents.records import By, Decisions, Order

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
    "REASON": lambda decision: decision.reason and decision.reason.value,
    "THROTTLED": "verdict.throttle_time_ms",
}
_OPTIONAL = ("TOKENS", "OPERATION", "THROTTLED", "REASON", "MUTATIONS", "TOPICS")


def list_decisions(
    user: User = None,
    client: Client = None,
    topic: TopicName = None,
    rejected: Annotated[
        bool, typer.Option("--rejected", help="Only decisions that reject a topic, also in shadow mode.")
    ] = False,
    reason: Annotated[
        Reason | None,
        typer.Option(help="Only decisions that reject a topic for this reason, also in shadow mode."),
    ] = None,
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
      mutation-quota decisions list --reason EXCEEDS_LIMIT --from -1d
      mutation-quota decisions list --from -1h --limit 1000 --output jsonl
    """
    if reason is not None and reason not in DECIDED:
        raise BadInput(f"--reason: {reason.value} is not a decision's; see docs/reference/errors.md#rejected-topics")
    settings = where.read()
    start, end = period.parse()
    from jobs.audit.decisions import AuditedDecisions, Selection
    from jobs.audit.reader import read_errors

    with read_errors(settings):
        audited = AuditedDecisions(settings)
        selection = Selection(user, client, topic, rejected or reason is not None, start, end, reason)
        decisions = audited.latest(selection, limit)
        newest_at = audited.newest_at()

    _print_reach(newest_at, end, output)
    output.print_found(
        Decisions(decisions, newest_at),
        lambda: print_rows(decisions, _COLUMNS, optional=_OPTIONAL),
        items="decisions",
        none="no such decisions" if selection != Selection() else "no decisions yet",
        selected=selection != Selection(),
    )


_WHOSE: Mapping[By, Columns] = {
    "user": {"USER": "user"},
    "client": {"CLIENT-ID": "client_id"},
    "bucket": {"BUCKET": lambda usage: format_tags(usage.bucket) or "all without a quota"},
}
_USAGE: Columns = {
    "REQUESTS": "requests",
    "REQUESTED": "requested",
    "ADMITTED": "admitted",
    "REJECTED": "rejected",
    "SHADOW": lambda usage: usage.shadow_rejected or None,
    "OBSERVED": lambda usage: usage.observed or None,
    "WITHDRAWN": lambda usage: usage.withdrawn or None,
    "LAST": "last_at",
}
_SHOWN_IF_GIVEN = ("LAST", "WITHDRAWN", "OBSERVED", "SHADOW")


def top(
    by: Annotated[By, typer.Option(help="What a sum is for.")] = "user",
    sort: Annotated[Order, typer.Option(help="The sum by which they are sorted, the largest first.")] = "requested",
    user: User = None,
    client: Client = None,
    *,
    period: PeriodOptions,
    limit: Annotated[int, typer.Option(min=1, max=100_000, metavar="N", help="Print at most the N largest.")] = 20,
    output: OutputOptions,
    where: SettingsOptions,
) -> None:
    """Show who requested the most mutations.

    Sums the mutations of each user, client-id or bucket, from the audit's tables; by default those of the last hour.
    SHADOW are admitted ones that a quota in shadow would have rejected, OBSERVED those from request logs, and WITHDRAWN
    those given back.

    Examples:
      mutation-quota decisions top --from -1h
      mutation-quota decisions top --by client --sort rejected --from -1d -o json
    """
    settings = where.read()
    start, end = period.parse()
    if start is None and end is None:
        start = now_ms() - HOUR_MS
    from jobs.audit.decisions import Selection
    from jobs.audit.usage import top_usage

    usage = top_usage(settings, Selection(user, client, start=start, end=end), by, sort, limit)
    _print_reach(usage.newest_at, end, output)
    output.print_found(
        usage,
        lambda: print_rows(usage.top, {**_WHOSE[by], **_USAGE}, optional=_SHOWN_IF_GIVEN),
        items="top",
        none=f"no {sort} mutations in that period",
        selected=True,
    )
    if usage.left_out:
        print(f"and {usage.left_out:,} more (--limit)", file=sys.stderr)


def explain(
    decision_id: Annotated[
        str | None, typer.Argument(metavar="ID", help="Id of the decision: topic-partition-offset.")
    ] = None,
    last: Annotated[
        bool,
        typer.Option("--last", help="The newest decision that rejected a topic, also in shadow, instead of an id."),
    ] = False,
    user: User = None,
    client: Client = None,
    topic: TopicName = None,
    *,
    output: OutputOptions,
    where: SettingsOptions,
) -> None:
    """Explain a decision, and replay it.

    Prints what was decided, why, and when to try again. Then it shows the quota, the bucket before the request, each
    charge and the throttle time, decides the request again, and shows whether the decision is the same. Last come who
    used the bucket in the last hour, and the scheduled changes.

    --last finds the newest decision that rejected a topic: of all, or of --user, --client and --topic. If there is
    none, it reports the newest decision.

    Examples:
      mutation-quota explain mutation-requests-0-17
      mutation-quota explain --last --user alice
    """
    selected = any(name is not None for name in (user, client, topic))
    if last == (decision_id is not None) or (selected and not last):
        raise BadInput("which decision? give its ID, or --last, which takes --user, --client and --topic")
    settings = where.read()
    from jobs.audit.decisions import Selection, explain_decision, explain_newest
    from jobs.audit.usage import with_outlook
    from quota.explanation.explanation_text import explanation_lines

    newest_at = None
    if decision_id is None:
        explanation, newest_at = explain_newest(settings, Selection(user, client, topic, rejected=True))
    else:
        explanation = explain_decision(settings, decision_id)

    explanation = with_outlook(settings, explanation, now_ms())

    def lines() -> None:
        for text, indent in explanation_lines(explanation, now_ms()):
            print_text(text, indent=indent)
        if newest_at is not None:
            print_text(_format_reach(newest_at), file=sys.stderr)

    output.print(explanation, lines)


def _print_reach(newest_at: int | None, end: int | None, output: OutputOptions) -> None:
    """Say as of when the audit's tables are, unless this is after the end of the period."""
    if output.for_people and newest_at is not None and (end is None or newest_at < end):
        print_text(_format_reach(newest_at), file=sys.stderr)


def _format_reach(newest_at: int) -> str:
    """Say as of when the audit's tables are, given the time of the newest decision (epoch ms)."""
    return f"The audit has decisions up to {format_time(newest_at)}; newer ones follow while it is running."
