"""`mutation-quota explain`: the explanation of a decision."""

from typing import Annotated

import typer

from jobs.cli.options import BootstrapServer, ConfigFile, Json, Overrides, print_json, read_settings


def explain(
    context: typer.Context,
    decision_id: Annotated[str, typer.Argument(metavar="ID", help="Of the decision: topic-partition-offset.")],
    neighbours: Annotated[
        int, typer.Option(min=0, max=1000, help="So many decisions of the bucket before and behind it.")
    ] = 3,
    as_json: Json = False,
    overrides: Overrides = None,
    config: ConfigFile = None,
    server: BootstrapServer = None,
) -> None:
    """Tell how a decision came about, from the tables of the audit, and whether it comes out the same again."""
    settings = read_settings(context, overrides, config, server)
    from jobs.audit.explain import explain_decision
    from quota.explanation.explanation_text import explanation_lines

    explanation = explain_decision(settings, decision_id, neighbours)
    if as_json:
        print_json(explanation)
        return
    for line in explanation_lines(explanation):
        print(line)
