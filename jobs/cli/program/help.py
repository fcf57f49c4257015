"""The layout of the help: commands in sections, and examples below each command."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

from typer.core import TyperGroup

Command: TypeAlias = Callable[..., None]

EXIT_CODES = {
    0: "success",
    1: "an error; status: there is a problem; quotas diff: there are differences",
    2: "bad input: an argument, option, setting or file; quotas diff: any error",
    3: "refused by a quota; quotas drift: the cluster differs from the log",
    4: "not found: what the command names does not exist",
    130: "interrupted",
}
"""The meaning of each exit code."""

_EXAMPLES = "\nExamples:\n"
_VERBATIM = "\b\n"
"""Precedes lines that are not wrapped."""


@dataclass(frozen=True, slots=True)
class Group:
    """A group of commands."""

    about: str
    commands: Mapping[str, Command]


Sections: TypeAlias = Mapping[str, Mapping[str, Command | Group]]
"""The commands and groups by their names, by the sections of the help."""


class SectionedGroup(TyperGroup):
    """A group whose help lists its commands in sections, as kubectl does."""

    sections: ClassVar[Mapping[str, Sequence[str]]]

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401, ARG002 those of Typer
        """Write the sections, with the summary of each command."""
        width = max(map(len, self.commands)) + 2
        for section, names in self.sections.items():
            with formatter.section(section):
                for name in names:
                    summary = self.commands[name].get_short_help_str(formatter.width)
                    formatter.write(f"  {name:{width}}{summary}\n")


def split_docstring(command: Command) -> tuple[str, str | None]:
    """Return the help of a command, and below it the epilog with its examples, from its docstring."""
    text, heading, examples = (inspect.getdoc(command) or "").partition(_EXAMPLES)
    lines = [f"  {line.strip()}" for line in examples.splitlines()]
    return text.strip(), "\n".join([f"{_VERBATIM}{heading.strip()}", *lines]) if heading else None


def exit_codes_epilog() -> str:
    """Return the table of exit codes as the epilog of the help."""
    rows = [f"  {code:<4} {meaning}" for code, meaning in EXIT_CODES.items()]
    return "\n".join([f"{_VERBATIM}Exit codes:", *rows])
