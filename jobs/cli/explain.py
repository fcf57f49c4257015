"""`mutation-quota explain`: the explanation of a decision."""

import sys
from typing import Annotated

import typer

from jobs.cli.options import Client, SettingsOptions, TopicName, User
from jobs.cli.output import OutputOptions, format_reach, print_text
from quota.errors import BadInput
from quota.kafka.timing import now_ms


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

    Says in a sentence what was decided, why, and when to try again. Then it shows the quota, the bucket before the
    request and the tokens that it gained, each charge and the throttle time, from the decision's row in the audit's
    table, decides the request again, and shows whether the decision is the same. `quotas history` shows who set the
    quota.

    --last finds the newest decision that rejected a topic: of anybody, or of --user, --client and --topic.

    Examples:
      mutation-quota explain mutation-requests-0-17
      mutation-quota explain --last --user alice
    """
    selected = any(name is not None for name in (user, client, topic))
    if last == (decision_id is not None) or (selected and not last):
        raise BadInput("which decision? give its ID, or --last, which takes --user, --client and --topic")
    settings = where.read()
    from jobs.audit.decisions import Selection, explain_decision, find_newest
    from quota.explanation.explanation_text import explanation_lines

    newest_at = None
    if decision_id is None:
        decision_id, newest_at = find_newest(settings, Selection(user, client, topic, rejected=True))
    explanation = explain_decision(settings, decision_id)

    def lines() -> None:
        for line in explanation_lines(explanation, now_ms()):
            print_text(line.text, indent=line.indent)
        if newest_at is not None:
            print_text(format_reach(newest_at), file=sys.stderr)

    output.print(explanation, lines)
