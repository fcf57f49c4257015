"""`mutation-quota decisions`: lists the decisions in the audit's tables."""

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from jobs.cli.options import Client, PeriodOptions, SettingsOptions, User
from jobs.cli.output import OutputOptions, print_table, print_text
from jobs.cli.wording import format_moment, format_outcome
from quota.kafka.timing import now_ms
from quota.text import format_seconds, format_time
from schemas.documents.decisions import Decisions

if TYPE_CHECKING:
    from quota.records.decision import Decision

_COLUMNS = ("DECISION", "REQUESTED", "USER / CLIENT-ID", "OUTCOME", "THROTTLED")
_WHOLE = ("DECISION", "REQUESTED", "OUTCOME", "THROTTLED")


def list_decisions(
    user: User = None,
    client: Client = None,
    refused: Annotated[
        bool, typer.Option("--refused", help="Only decisions that refuse a topic, also in shadow mode.")
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
      mutation-quota decisions list --user alice --refused
      mutation-quota decisions list --from -1h --limit 1000 --output jsonl
    """
    settings = where.read()
    start, end = period.parse()
    from jobs.audit.decisions import AuditedDecisions, Selection
    from jobs.audit.tables.reader import read_errors

    with read_errors(settings):
        audited = AuditedDecisions(settings)
        found = audited.latest(Selection(user, client, refused, start, end), limit)
        newest_at = audited.newest_at()

    def table() -> None:
        now = now_ms()
        if found:
            print_table(_COLUMNS, (_row(each, now) for each in found), numbers=_COLUMNS[-1:], whole=_WHOLE)
        else:
            print("No such decisions.")
        if newest_at is not None and (end is None or newest_at < end):
            print_text(
                f"The audit has decisions up to {format_time(newest_at)}; newer ones will follow.", file=sys.stderr
            )

    output.print(Decisions(found, newest_at), table, items="decisions")


def _row(decision: "Decision", now: int) -> tuple[str, ...]:
    return (
        decision.decision_id,
        format_moment(now, decision.timestamp),
        f"{decision.user} / {decision.client_id}",
        format_outcome(decision),
        format_seconds(decision.verdict.throttle_time_ms),
    )
