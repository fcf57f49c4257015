"""`mutation-quota explain`: the explanation of a decision."""

from typing import Annotated

import typer

from jobs.cli.options import KafkaOptions
from jobs.cli.output import OutputOptions, print_text


def explain(
    decision_id: Annotated[str, typer.Argument(metavar="ID", help="Id of the decision: topic-partition-offset.")],
    around: Annotated[
        int,
        typer.Option(
            "--context",
            metavar="N",
            min=0,
            max=1000,
            help="Show the N decisions of the same bucket before and after it.",
        ),
    ] = 3,
    *,
    output: OutputOptions,
    kafka: KafkaOptions,
) -> None:
    """Explain a decision, and replay it.

    Shows the quota and who set it, the tokens before, each charge and the throttle time, from the audit's tables. Then
    it replays the request and shows whether the decision is the same.

    Examples:
      mutation-quota explain mutation-requests-0-17
      mutation-quota explain mutation-requests-0-17 --context 10 -o json
    """
    settings = kafka.read()
    from jobs.audit.explain import explain_decision
    from quota.explanation.explanation_text import explanation_lines

    explanation = explain_decision(settings, decision_id, around)

    def lines() -> None:
        for line in explanation_lines(explanation):
            print_text(line.text, indent=line.indent)

    output.print(explanation, lines)
