"""Groups of options as Typer sees them."""

from dataclasses import dataclass
from typing import Annotated

import typer
from typer.testing import CliRunner

from jobs.cli.groups import with_groups


@dataclass(frozen=True)
class Place:
    """A group."""

    context: typer.Context
    city: Annotated[str, typer.Option("--city")] = "Oslo"


@dataclass(frozen=True)
class Address(Place):
    """A group that contains the options of another."""

    street: Annotated[str | None, typer.Option("--street")] = None


def send(name: str, *, to: Address, back: Place, count: Annotated[int, typer.Option("--count")] = 1) -> None:
    """Send a letter."""
    typer.echo(f"{name} {count} {to.street} {to.city} {back.city} {to.context.info_name}")


def run(*args):
    app = typer.Typer(rich_markup_mode=None)
    app.command("send")(with_groups(send))
    return CliRunner().invoke(app, args).output


def test_a_command_gets_groups_built_from_their_options():
    assert run("ann", "--street", "Main") == "ann 1 Main Oslo Oslo send\n"
    assert run("ann", "--city", "Bonn", "--count", "2") == "ann 2 None Bonn Bonn send\n"


def test_the_help_has_the_options_of_the_groups_in_their_place_and_once():
    shown = run("--help")
    assert "Send a letter." in shown
    assert shown.index("--city") < shown.index("--street") < shown.index("--count")
    assert shown.count("--city") == 1
