"""`mutation-quota explain`: how a decision came about."""

from typing import Annotated

import typer

from jobs.cli.options import BootstrapServer, ConfigFile, Json, Overrides, print_json, settings_of


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
    settings = settings_of(context, overrides, config, server)
    from jobs.audit.explain import explained
    from jobs.cli.analysis.explanation_text import explanation_lines

    found = explained(settings, decision_id, neighbours)
    if as_json:
        print_json(found)
        return
    for line in explanation_lines(found):
        print(line)
