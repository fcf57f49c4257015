"""Generates the reference of the command line from the Typer app."""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

import typer
from typer.main import get_command

from conf.docs.markdown import code, sentence, table
from jobs.cli.groups import range_text
from jobs.cli.program import EXIT_CODES, SECTIONS, app

_TABLES = (
    "A terminal that is too narrow for a table does not show its least important columns, and names them below the "
    "table. Times are to the second, and without today's date; in a file or a pipe they are in full. Programs read "
    "`--output json`."
)
_SEVERAL = 3
"""The number of commands from which an option that they share is described once."""
_ROOT: Any = get_command(app)
_OPTION = re.compile(r"(?<![\w`'-])--[a-z][a-z-]*(?: [\w.]+=\w+)?")
_PARAGRAPHS = re.compile(r"\n\s*\n")


def overview() -> Iterator[str]:
    """Yield the lines about all commands: what each does, with a link to it, and what they have in common."""
    for section, commands in SECTIONS.items():
        yield from ("", f"## {section}", "")
        summaries = (_PARAGRAPHS.split(_ROOT.commands[name].help or "")[0] for name in commands)
        links = (f"[`{name}`](commands/{section.lower()}.md#{name})" for name in commands)
        yield from table(("command", "does"), zip(links, map(sentence, summaries), strict=True))
    yield from ("", "## Common options", "", "Before or after any command:", "")
    anywhere, of_program = _root_options()
    yield from map(_item, anywhere)
    yield from ("", "After the commands that list them:", "")
    yield from map(_item, _common_options())
    yield from ("", "Without a command:", "")
    yield from map(_item, of_program)
    yield from ("", "## Exit codes", "")
    yield from table(("code", "meaning"), ((str(code), meaning) for code, meaning in EXIT_CODES.items()))
    yield from ("", "## Tables", "", _TABLES)


def command_pages() -> Mapping[str, str]:
    """Return a page for each section of the program's help, by the page's path in docs/."""
    return {
        f"reference/commands/{section.lower()}.md": "\n".join([*_introduction(section), *_commands(names)])
        for section, names in SECTIONS.items()
    }


def _introduction(section: str) -> Iterator[str]:
    yield from (f"# Commands: {section.lower()}", "")
    yield "[Common options and exit codes](../commands.md#common-options) are described once."


def _commands(names: Iterable[str]) -> Iterator[str]:
    common = set(map(_item, _common_options()))
    for path, command in _paths(names):
        level = "##" if path in names else "###"
        yield from ("", f"{level} {path}", "")
        yield from _text(command.help) if _is_group(command) else _command(command, common)


def _paths(names: Iterable[str]) -> Iterator[tuple[str, Any]]:
    """Yield groups and commands, each with its full name."""
    for name in names:
        command = _ROOT.commands[name]
        yield name, command
        for inner, subcommand in command.commands.items() if _is_group(command) else ():
            if not subcommand.hidden:
                yield f"{name} {inner}", subcommand


def _root_options() -> tuple[list[Any], list[Any]]:
    """Return the options of the program that commands have as well, and those that only it has."""
    shared = {_item(option) for _, command in _paths(_ROOT.commands) for option in _options(command)}
    options = _options(_ROOT)
    return [option for option in options if _item(option) in shared], [
        option for option in options if _item(option) not in shared
    ]


def _common_options() -> list[Any]:
    """Return the options that several commands have in the same form, the most frequent first."""
    anywhere = {_item(option) for option in _root_options()[0]}
    options: dict[str, Any] = {}
    counts: Counter[str] = Counter()
    for _, command in _paths(_ROOT.commands):
        for option in _options(command):
            options.setdefault(_item(option), option)
            counts[_item(option)] += 1
    return [options[item] for item, count in counts.most_common() if count >= _SEVERAL and item not in anywhere]


def _is_group(command: Any) -> bool:  # noqa: ANN401 Typer has no public types of commands
    return hasattr(command, "commands")


def _command(command: Any, common: Collection[str]) -> Iterator[str]:  # noqa: ANN401
    text, _, examples = (command.epilog or "").rpartition("Examples:")
    yield from _text(command.help)
    yield from _text(text) if text.strip() else ()
    if examples:
        yield from ("```text", *filter(None, examples.splitlines()), "```", "")
    yield from (
        f"- {code(_argument_name(param))}: {_prose(param.help or '')}"
        for param in command.params
        if param.param_type_name == "argument"
    )
    anywhere = {_item(option) for option in _root_options()[0]}
    options = [option for option in _options(command) if _item(option) not in anywhere]
    yield from (_item(option) for option in options if _item(option) not in common)
    if also := [code(option.opts[0]) for option in options if _item(option) in common]:
        yield f"- Common: {', '.join(also)}."


def _text(text: str | None) -> Iterator[str]:
    """Yield paragraphs. If all lines after the first are indented, they become a code block."""
    for paragraph in _PARAGRAPHS.split((text or "").strip()):
        first, *rest = paragraph.splitlines() or [""]
        if rest and all(line.startswith(" ") for line in rest):
            yield from (_prose(first), "", "```text", *(line.strip() for line in rest), "```", "")
        elif first.startswith(" "):
            yield from ("```text", *(line.strip() for line in (first, *rest)), "```", "")
        else:
            yield from (_prose(paragraph), "")


def _prose(text: str) -> str:
    """Return a text as one line, with options as code."""
    parts = re.split(r"(`[^`]*`)", sentence(text))
    return "".join(part if part.startswith("`") else _OPTION.sub(lambda name: code(name[0]), part) for part in parts)


def _options(command: Any) -> list[Any]:  # noqa: ANN401
    parameters = command.get_params(typer.Context(command))
    return [parameter for parameter in parameters if _is_option(parameter) and "--help" not in parameter.opts]


def _is_option(parameter: Any) -> bool:  # noqa: ANN401
    return bool(parameter.param_type_name == "option" and not parameter.hidden)


def _item(option: Any) -> str:  # noqa: ANN401
    """Return the line of a list that describes an option."""
    names = ", ".join((*option.opts, *option.secondary_opts))
    value, notes = _value(option)
    notes += [f"default {code(default)}"] if (default := _default_text(option)) else []
    head = code(f"{names} {value}".strip())
    noted = f" ({', '.join(notes)})" if notes else ""
    return f"- {head}{noted}: {_prose(option.help or '')}"


def _value(option: Any) -> tuple[str, list[str]]:  # noqa: ANN401
    """Return the value of an option, and notes about it."""
    if option.is_flag:
        return "", []
    kind = option.type_descriptor
    if kind.is_choice:
        name = "|".join(str(getattr(choice, "value", choice)) for choice in kind.choices)
    else:
        name = option.metavar or ("FILE" if kind.is_path else {int: "N"}.get(kind.annotation, "TEXT"))
    repeatable = option.multiple and "Repeatable" not in (option.help or "")
    notes = ["**required**" if option.required else "", range_text(option), "repeatable" if repeatable else ""]
    return name, list(filter(None, notes))


def _argument_name(parameter: Any) -> str:  # noqa: ANN401
    """Return an argument for a usage line: in brackets if it is optional, with dots if it is repeatable."""
    name = parameter.metavar or parameter.name.upper()
    name = name if parameter.required else f"[{name}]"
    return name if parameter.nargs == 1 else f"{name}..."


def _default_text(option: Any) -> str:  # noqa: ANN401
    """Return the default of an option; empty if it has none, or if its help contains it."""
    value = option.default
    if option.is_flag or value is None or value == [] or callable(value):
        return ""
    return f"{value:g}" if isinstance(value, float) else str(getattr(value, "value", value))
