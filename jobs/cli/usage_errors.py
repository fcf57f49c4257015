"""Errors of arguments as one line: the option, its value, and what is expected."""

import difflib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import typer
from pydantic import ValidationError

from jobs.cli.help_text import range_text
from quota.text import printable

_MIN_SIMILARITY = 0.75
"""The lowest similarity (difflib's ratio) of an option that is suggested."""

_CONNECTING = {"--bootstrap-server", "--command-config"}
_WITHOUT_CLUSTER = {
    "reads storage.root, not Kafka: use --set storage.root=...": {
        "backtest",
        "buckets export",
        "buckets list",
        "decisions list",
        "maintain",
        "recommend",
        "report",
    },
    "connects to no cluster": {"completion", "observe import", "quotas validate", "simulate"},
    "starts its own cluster": {"broker", "demo"},
}
"""The commands without these options, by what they do instead."""

_SHOWN, _SET, _DELETED = {"describe", "get", "list", "show"}, {"add", "alter", "create", "set"}, {"delete", "remove"}
_SYNONYMS = (
    (_SHOWN, ("describe", "list", "show")),
    (_SET, ("alter", "create")),
    (_DELETED, ("delete",)),
    ({"explain"}, ("resolve",)),
)
"""Names of commands in other programs, and ours."""

_DELETING = ("--delete-config", "--reset")
"""The options of `alter` that delete something."""


def usage_message(error: typer.TyperException) -> str:
    """Return the message of an error, rewritten if Typer's message uses terms of its implementation."""
    if hasattr(error, "possibilities"):
        return f"{error.message}{_option_advice(error)}"
    parameter: Any = error.param if isinstance(error, typer.BadParameter) else None
    if parameter is None or not error.message:
        return error.format_message()
    name = parameter.opts[0] if parameter.param_type_name == "option" else parameter.metavar
    if not isinstance(error.__cause__, ValidationError):
        return f"{name} {error.message}"
    value = printable(str(error.__cause__.errors()[0]["input"]))
    return f"{name} {value}: expected {_expected(parameter)}"


def suggestions(word: str, commands: Mapping[str, Any], options: Iterable[Any]) -> list[str]:
    """Return the option or the commands of a group that do what other programs call `word`.

    Args:
        word: a name that no command of the group has, such as `list` or `version`.
        commands: the group's commands by name.
        options: the group's own options.
    """
    if any(f"--{word}" in each.opts for each in options):
        return [f"--{word}"]
    found = [each for names, ours in _SYNONYMS if word in names for each in ours if each in commands]
    if word in _DELETED and not found and "alter" in commands:
        of_alter = set(_options(commands["alter"]))
        return [f"alter {each}" for each in _DELETING if each in of_alter]
    return found


def _option_advice(error: Any) -> str:  # noqa: ANN401 Typer's types are private
    """Return the suggestion for an option that a command does not have; empty if no option is similar."""
    name, context = error.option_name, error.ctx
    options = set(_options(context.command)) if context else set()
    command = context.command_path.partition(" ")[2] if context else ""
    reason = next((reason for reason, names in _WITHOUT_CLUSTER.items() if command in names), None)
    if name in _CONNECTING and reason:
        return f"; {command} {reason}"
    if name == "--config" and "--settings" in options:
        return "; use --settings FILE"
    commands = getattr(context.command, "commands", {}).values() if context else ()
    if any(name in _options(each) for each in commands):
        return f"; it comes after the command: {' '.join(filter(None, (command, 'COMMAND', name)))}"
    near = difflib.get_close_matches(name, sorted(error.possibilities or ()), cutoff=_MIN_SIMILARITY)
    return f"; did you mean {' or '.join(near)}?" if near else ""


def _options(command: Any) -> Iterator[str]:  # noqa: ANN401
    return (option for each in command.params for option in each.opts)


def _expected(parameter: Any) -> str:  # noqa: ANN401 Typer's types are private
    kind = parameter.type_descriptor
    if kind.is_choice:
        *others, last = (str(getattr(each, "value", each)) for each in kind.choices)
        return f"{', '.join(others)} or {last}"
    number = "a number" if kind.annotation is float else "a whole number"
    return f"{number}, {limits}" if (limits := range_text(parameter)) else number
