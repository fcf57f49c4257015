"""Generates the reference of the command line from the Typer app."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import typer
from typer.main import get_command

from conf.docs.markdown import code, sentence, table
from jobs.cli.groups import range_text
from jobs.cli.program import EXIT_CODES, SECTIONS, app

_PROGRAM = "mutation-quota"
_TABLES = (
    "On a terminal, a table that is too wide lacks its least important columns, and names them below; if it is still "
    "too wide, each row is a list of all its values. Times are to the second, and without today's date. Into a file or "
    "a pipe, each row is one line, and times are whole. Less important columns without a value are left out. Programs "
    "read `--output json`."
)
_ROOT: Any = get_command(app)
_PARAGRAPHS = re.compile(r"\n\s*\n")


def overview() -> Iterator[str]:
    """Yield the lines about all commands: what each does, with a link to it, and what they have in common."""
    for section, commands in SECTIONS.items():
        yield from ("", f"## {section}", "")
        summaries = (_PARAGRAPHS.split(_ROOT.commands[name].help or "")[0] for name in commands)
        links = (f"[`{name}`](commands/{section.lower()}.md#{name})" for name in commands)
        yield from table(("command", "does"), zip(links, map(sentence, summaries), strict=True))
    yield from ("", "## Options before the command", "")
    yield from _option_table(_options(_ROOT))
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
    yield "[The command line](../commands.md) has all commands, their exit codes and the options before a command."


def _commands(names: Iterable[str]) -> Iterator[str]:
    common = {_identity(option) for option in _options(_ROOT)}
    for name in names:
        command = _ROOT.commands[name]
        yield from ("", f"## {name}", "")
        if not _is_group(command):
            yield from _command(name, command, common)
            continue
        yield from _text(command.help)
        for inner, subcommand in command.commands.items():
            if not subcommand.hidden:
                yield from ("", f"### {name} {inner}", "")
                yield from _command(f"{name} {inner}", subcommand, common)


def _is_group(command: Any) -> bool:  # noqa: ANN401 Typer has no public types of commands
    return hasattr(command, "commands")


def _command(path: str, command: Any, common: Collection[tuple[str, str]]) -> Iterator[str]:  # noqa: ANN401
    arguments = " ".join(_argument_name(param) for param in command.params if param.param_type_name == "argument")
    yield from ("```text", " ".join(filter(None, (_PROGRAM, path, "[OPTIONS]", arguments))), "```", "")
    yield from _text(command.help)
    yield from _arguments(command)
    options = _options(command)
    yield from _option_table([option for option in options if _identity(option) not in common])
    if shared := [option.opts[0] for option in options if _identity(option) in common]:
        before = "[before the command](../commands.md#options-before-the-command)"
        yield from ("", f"Also {', '.join(map(code, shared))}, as {before}.")
    if command.epilog:
        text, _, examples = command.epilog.rpartition("Examples:")
        yield ""
        yield from _text(text) if text.strip() else ()
        yield from ("Examples:", "", "```text", *filter(None, examples.splitlines()), "```", "")


def _text(text: str | None) -> Iterator[str]:
    """Yield paragraphs. If all lines after the first are indented, they become a code block."""
    for paragraph in _PARAGRAPHS.split((text or "").strip()):
        first, *rest = paragraph.splitlines() or [""]
        if rest and all(line.startswith(" ") for line in rest):
            yield from (sentence(first), "", "```text", *(line.strip() for line in rest), "```", "")
        elif first.startswith(" "):
            yield from ("```text", *(line.strip() for line in (first, *rest)), "```", "")
        else:
            yield from (sentence(paragraph), "")


def _arguments(command: Any) -> Iterator[str]:  # noqa: ANN401
    params = [param for param in command.params if param.param_type_name == "argument"]
    if params:
        yield from table(
            ("argument", "meaning"), ((code(_argument_name(param)), sentence(param.help or "")) for param in params)
        )
        yield ""


def _options(command: Any) -> list[Any]:  # noqa: ANN401
    parameters = command.get_params(typer.Context(command))
    return [parameter for parameter in parameters if _is_option(parameter) and "--help" not in parameter.opts]


def _is_option(parameter: Any) -> bool:  # noqa: ANN401
    return bool(parameter.param_type_name == "option" and not parameter.hidden)


def _identity(option: Any) -> tuple[str, str]:  # noqa: ANN401
    """Return the name and help of an option, because a name can have two meanings, such as `--topic`."""
    return option.opts[0], option.help or ""


def _option_table(options: Sequence[Any]) -> Iterator[str]:
    head = ("option", "value", "default", "meaning")
    rows = (
        (_names(option), _value(option), code(_default_text(option)), sentence(option.help or "")) for option in options
    )
    if options:
        yield from table(head, rows)


def _names(option: Any) -> str:  # noqa: ANN401
    return ", ".join(code(name) for name in (*option.opts, *option.secondary_opts))


def _value(option: Any) -> str:  # noqa: ANN401
    if option.is_flag:
        return ""
    kind = option.type_descriptor
    if kind.is_choice:
        name = ", ".join(code(str(getattr(choice, "value", choice))) for choice in kind.choices)
    else:
        name = code(option.metavar or ("FILE" if kind.is_path else {int: "N"}.get(kind.annotation, "TEXT")))
    notes = [range_text(option), "repeatable" if option.multiple else "", "**required**" if option.required else ""]
    return ", ".join(filter(None, (name, *notes)))


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
