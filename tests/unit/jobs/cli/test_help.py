"""The help of all commands: summaries that fit, examples that parse, and one way to print data."""

import shlex

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from jobs.__main__ import app

ROOT = get_command(app)
MAX_SUMMARY = 55


def leaves(command=ROOT, words=()):
    """Yield each command that is not a group, with its words."""
    for name, each in getattr(command, "commands", {}).items():
        yield from leaves(each, (*words, name))
    if not hasattr(command, "commands"):
        yield words, command


COMMANDS = dict(leaves())
WITHOUT_KAFKA = {
    ("backtest",),  # reads the tables or files, as the next eleven
    ("buckets", "export"),
    ("buckets", "list"),
    ("decisions", "list"),
    ("maintain",),
    ("observe", "import"),
    ("recommend",),
    ("report",),
    ("simulate",),
    ("quotas", "validate"),
    ("broker",),  # starts its own broker, as the next one
    ("demo",),
}
"""The commands that connect to no cluster."""
GROUPS = {(name,): each for name, each in ROOT.commands.items() if hasattr(each, "commands")}
EVERYTHING = pytest.mark.parametrize("words", sorted(COMMANDS | GROUPS), ids=" ".join)
EACH_COMMAND = pytest.mark.parametrize("words", sorted(COMMANDS), ids=" ".join)


def help_lines(words):
    """Return the lines of a command's help, in a terminal of 80 columns."""
    done = CliRunner().invoke(app, [*words, "--help"], prog_name="mutation-quota", env={"COLUMNS": "80"})
    assert done.exit_code == 0
    return done.output.splitlines()


def examples(command):
    return (command.epilog or "").partition("Examples:\n\n")[2].split("\n\n")


@EVERYTHING
def test_a_summary_is_a_short_sentence(words):
    summary = (COMMANDS | GROUPS)[words].get_short_help_str(200)
    assert len(summary) <= MAX_SUMMARY
    assert summary.endswith(".")
    assert summary[0].isupper()


@EVERYTHING
def test_no_line_of_the_help_is_wider_than_a_terminal(words):
    assert [line for line in help_lines(words) if len(line) > 80] == []


@EACH_COMMAND
def test_two_examples_are_shown_as_they_would_be_typed(words):
    found = examples(COMMANDS[words])
    assert len(found) == 2
    shown = " ".join(" ".join(help_lines(words)).split())
    assert [each for each in found if each not in shown] == []


@EACH_COMMAND
def test_the_examples_are_understood_by_the_parser(words):
    """They are not run: each is parsed down to its command."""
    for example in examples(COMMANDS[words]):
        program, *args = shlex.split(example)
        assert program == "mutation-quota"
        assert tuple(args[: len(words)]) == words
        COMMANDS[words].make_context(words[-1], args[len(words) :])


@EACH_COMMAND
def test_a_command_that_connects_to_kafka_has_the_options_to_connect_and_no_other_has(words):
    """`config show` has them, too: it checks how another command would connect."""
    options = {option for each in COMMANDS[words].params for option in each.opts}
    expected = set() if words in WITHOUT_KAFKA else {"--bootstrap-server", "--command-config"}
    assert options & {"--bootstrap-server", "--command-config"} == expected


@EACH_COMMAND
def test_the_zone_of_a_time_is_shown(words):
    times = [each for each in COMMANDS[words].params if each.metavar == "TIME"]
    assert [each.opts for each in times if "(UTC without a zone)" not in each.help] == []


@EACH_COMMAND
def test_the_common_options_are_accepted_after_the_command(words):
    found = {option for each in COMMANDS[words].params for option in each.opts}
    assert {"--set", "--settings", "--log-level", "--verbose", "-v"} <= found


@pytest.mark.parametrize("words", sorted(GROUPS), ids=" ".join)
def test_the_help_of_a_group_says_where_the_common_options_are(words):
    assert " ".join(" ".join(help_lines(words)).split()).endswith(
        "Common options, such as --set and --verbose, come after the command; its own --help lists them."
    )
