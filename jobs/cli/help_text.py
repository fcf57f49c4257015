"""Formats a command's help in lines that fit the terminal, which Typer's own help does not."""

import re
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from jobs.cli.wording import WIDTH, fill

Rows: TypeAlias = Sequence[tuple[str, str]]
"""The rows of a section: a label, and its text."""

COMMON_OPTIONS = "Common options"
"""The panel of options that most commands have. It follows the command's own options."""

COMMON_OPTIONS_HELP = "Common options, such as --set and --verbose, come after the command; its own --help lists them."
"""The last line of the help of a group."""

_OPTIONS = "Options"
_INDENT = "  "
_LABEL_WIDTH = 30
"""The length of the longest label whose text is on the same line [characters]."""
_MIN_TEXT_WIDTH = 24
"""The width of the narrowest column of texts [characters]; on a narrower terminal, texts are below their labels."""
_NO_BREAK = "\xa0"
"""A space at which lines are not broken."""
_PARAGRAPHS = re.compile(r"\n\s*\n")


def help_text(command: Any, context: Any, sections: Mapping[str, Rows]) -> str:  # noqa: ANN401 Typer's own are private
    """Return the help of a command.

    Args:
        command: the command, or a group of commands.
        context: its context.
        sections: the tables that follow the options, such as commands, by heading.
    """
    width = min(shutil.get_terminal_size().columns, WIDTH)
    parameters = [each for each in command.get_params(context) if not each.hidden]
    arguments = [each for each in parameters if each.param_type_name == "argument"]
    pieces = ["[OPTIONS]", *map(argument_name, arguments)]
    if sections:
        pieces.append("COMMAND [ARGS]...")
    usage = f"Usage: {context.command_path} "
    tables: dict[str, list[tuple[str, str]]] = {"Arguments": [], _OPTIONS: []}
    for each in arguments:
        tables["Arguments"].append((each.metavar or each.name.upper(), _with_notes(each)))
    for each in parameters:
        if each.param_type_name == "option":
            label, _ = each.get_help_record(context)
            tables.setdefault(each.rich_help_panel or _OPTIONS, []).append((label, _with_notes(each)))
    blocks = [
        fill(" ".join(pieces), usage, " " * len(usage), width),
        *_paragraphs(command.help, width),
        *(_section(heading, rows, width) for heading, rows in (tables | dict(sections)).items() if rows),
        *_paragraphs(command.epilog, width),
    ]
    return "\n\n".join(blocks).replace(_NO_BREAK, " ")


def argument_name(parameter: Any) -> str:  # noqa: ANN401
    """Return an argument for a usage line: in brackets if it is optional, with dots if it is repeatable."""
    name = parameter.metavar or parameter.name.upper()
    name = name if parameter.required else f"[{name}]"
    return name if parameter.nargs == 1 else f"{name}..."


def range_text(parameter: Any) -> str:  # noqa: ANN401
    """Return the range of a number; empty if it has none."""
    if parameter.min is None:
        return ""
    return f"at least {parameter.min}" if parameter.max is None else f"{parameter.min} to {parameter.max}"


def default_text(parameter: Any) -> str:  # noqa: ANN401
    """Return the default of an option; empty if it has none, or if its help contains it."""
    value = parameter.default
    if parameter.param_type_name == "argument" or parameter.is_flag or value is None or value == [] or callable(value):
        return ""
    return f"{value:g}" if isinstance(value, float) else str(getattr(value, "value", value))


def _with_notes(parameter: Any) -> str:  # noqa: ANN401
    default = default_text(parameter)
    notes = [f"default: {default}" if default else "", range_text(parameter), "required" if parameter.required else ""]
    shown = "; ".join(each.replace(" ", _NO_BREAK) for each in notes if each)
    return f"{parameter.help or ''} [{shown}]" if shown else parameter.help or ""


def _section(heading: str, rows: Rows, width: int) -> str:
    return "\n".join([f"{heading}:", *_lines(rows, width)])


def _lines(rows: Rows, width: int) -> Iterator[str]:
    column = min(max(len(label) for label, _ in rows), _LABEL_WIDTH) + 2 * len(_INDENT)
    below = width - column < _MIN_TEXT_WIDTH
    indent = " " * (3 * len(_INDENT) if below else column)
    for label, text in rows:
        first = f"{_INDENT}{label}"
        if below or len(first) > column - len(_INDENT):
            yield first.rstrip()
            yield fill(text, indent, indent, width)
        else:
            yield fill(text, first.ljust(column), indent, width)


def _paragraphs(text: str | None, width: int) -> Iterable[str]:
    """Yield paragraphs. If all lines after the first are indented, they are not rewrapped."""
    for paragraph in _PARAGRAPHS.split((text or "").strip()):
        first, *rest = paragraph.splitlines() or [""]
        if rest and all(line.startswith(" ") for line in rest):
            yield "\n".join((first, *rest))
        elif paragraph:
            yield fill(" ".join(paragraph.split()), _INDENT, _INDENT, width)
