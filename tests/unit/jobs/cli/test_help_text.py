"""The layout of the help: ranges in words, lines that fit, and unbroken names."""

from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from jobs.cli.help import HelpfulCommand, HelpfulGroup


def command(
    files: Annotated[list[str] | None, typer.Argument(metavar="FILE", help="Files to read.")] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, metavar="N", help="Port.")] = 9092,
    seconds: Annotated[float, typer.Option(min=0.1, metavar="S", help="How long to wait.")] = 10,
    algorithm: Annotated[
        str, typer.Option(metavar="TEXT", help="Of a-long-name, another-long-name or a-third-long-name.")
    ] = "",
    settings: Annotated[
        str, typer.Option(metavar="FILE", help="Settings file.", rich_help_panel="Common options")
    ] = "a.toml",
) -> None:
    """Do what it does.

    In the words of conf/mutation-quota.toml, of which none is broken at its hyphen.
    """
    del files, port, seconds, algorithm, settings


EXAMPLES = "Examples:\n  program command --with a --very long --line that --is 'copied as it is shown'"


def help_lines(*words, columns):
    app = typer.Typer(cls=HelpfulGroup, rich_markup_mode=None, add_completion=False)
    app.callback(help="A program.")(lambda: None)
    app.command("do", cls=HelpfulCommand, epilog=EXAMPLES)(command)
    done = CliRunner().invoke(app, [*words, "--help"], prog_name="program", env={"COLUMNS": str(columns)})
    assert done.exit_code == 0
    return done.output.splitlines()


def test_the_help_of_a_command_is_laid_out_for_a_terminal_of_80_columns():
    assert help_lines("do", columns=80) == [
        "Usage: program do [OPTIONS] [FILE]...",
        "",
        "  Do what it does.",
        "",
        "  In the words of conf/mutation-quota.toml, of which none is broken at its",
        "  hyphen.",
        "",
        "Arguments:",
        "  FILE  Files to read.",
        "",
        "Options:",
        "  --port N          Port. [default: 9092; 0 to 65535]",
        "  --seconds S       How long to wait. [default: 10; at least 0.1]",
        "  --algorithm TEXT  Of a-long-name, another-long-name or a-third-long-name.",
        "  --help            Show this message and exit.",
        "",
        "Common options:",
        "  --settings FILE  Settings file. [default: a.toml]",
        "",
        "Examples:",
        "  program command --with a --very long --line that --is 'copied as it is shown'",
    ]


def test_texts_come_below_their_labels_in_a_narrow_terminal():
    lines = help_lines("do", columns=36)
    first = lines.index("  --port N")
    assert lines[first : first + 4] == [
        "  --port N",
        "      Port. [default: 9092;",
        "      0 to 65535]",
        "  --seconds S",
    ]


def test_the_help_of_a_group_lists_its_commands():
    assert help_lines(columns=80)[-2:] == ["Commands:", "  do  Do what it does."]


@pytest.mark.parametrize("columns", [40, 60, 80, 200])
def test_no_line_is_wider_than_the_terminal_or_80_characters_but_examples(columns):
    lines = help_lines("do", columns=columns)
    assert [line for line in lines[:-1] if len(line) > min(columns, 80)] == []
