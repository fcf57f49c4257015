"""What the help shows besides Typer's own: the groups, the examples, and the exit codes."""

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

import typer

Command: TypeAlias = Callable[..., None]

EXIT_CODES = {
    0: "success",
    1: "an error; status: there is a problem",
    2: "bad input: an argument, option, setting or file",
    3: "quotas drift, and apply, rollback, pull and push with --dry-run: there are differences",
    4: "nothing found: what the command names or selects does not exist",
    130: "interrupted",
}

EXIT_CODES_HELP = "\n\n".join(["Exit codes:", *(f"{code}: {meaning}" for code, meaning in EXIT_CODES.items())])
"""The last lines of the help of the program."""

COMMON_OPTIONS = "Common options"
"""The panel of options that most commands have. It follows the command's own options."""

common_option = partial(typer.Option, rich_help_panel=COMMON_OPTIONS)

COMMON_OPTIONS_HELP = "Common options, such as --set and --verbose, come after the command; its own --help lists them."
"""The last line of the help of a group."""

_EXAMPLES = "\nExamples:\n"
_PARAGRAPHS = re.compile(r"\n\s*\n")


@dataclass(frozen=True, slots=True)
class Group:
    """A group of commands."""

    about: str
    commands: Mapping[str, Command]


Sections: TypeAlias = Mapping[str, Mapping[str, Command | Group]]
"""The commands and groups by name, for each panel of the help."""


def split_docstring(command: Command) -> tuple[str, str | None]:
    """Return the help of a command and its epilog, whose paragraphs are the examples, from its docstring."""
    text, heading, examples = (inspect.getdoc(command) or "").partition(_EXAMPLES)
    lines = [line.strip() for line in examples.splitlines()]
    paragraphs = map(_joined, _PARAGRAPHS.split(text.strip()))
    return "\n\n".join(paragraphs), "\n\n".join([heading.strip(), *lines]) if heading else None


def _joined(paragraph: str) -> str:
    """Return a paragraph as one line, because Typer keeps its line breaks; one with indented lines stays."""
    _, *others = paragraph.splitlines()
    return paragraph if any(line.startswith(" ") for line in others) else " ".join(paragraph.split())
