"""The layout of the help: commands in sections, and examples below each command."""

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

from typer.core import TyperCommand, TyperGroup

from jobs.cli.help_text import Rows, help_text
from jobs.cli.single_values import SingleValues
from jobs.cli.usage_errors import suggestions

Command: TypeAlias = Callable[..., None]

EXIT_CODES = {
    0: "success",
    1: "an error; status: there is a problem",
    2: "bad input: an argument, option, setting or file",
    3: "refused by a quota; quotas drift and quotas apply --dry-run: there are differences",
    4: "not found: what the command names does not exist",
    130: "interrupted",
}
"""The meaning of each exit code."""

_EXAMPLES = "\nExamples:\n"
_LONGEST_SUMMARY = 200
"""A length [characters] that no summary exceeds, so that none is truncated."""


@dataclass(frozen=True, slots=True)
class Group:
    """A group of commands."""

    about: str
    commands: Mapping[str, Command]


Sections: TypeAlias = Mapping[str, Mapping[str, Command | Group]]
"""The commands and groups by name, for each section of the help."""


class HelpfulCommand(SingleValues, TyperCommand):
    """A command whose help describes ranges in words and does not break names."""

    def get_help(self, ctx: Any) -> str:  # noqa: ANN401 Typer's types are private
        """Return the help."""
        return help_text(self, ctx, {})


class HelpfulGroup(SingleValues, TyperGroup):
    """A group of commands with the help of `HelpfulCommand`."""

    def get_help(self, ctx: Any) -> str:  # noqa: ANN401 Typer's types are private
        """Return the help."""
        return help_text(self, ctx, self.summaries())

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:  # noqa: ANN401
        """Return the command at the start of the arguments; the error for a name of another program suggests ours."""
        if not ctx.resilient_parsing and args[0] not in self.commands:
            suggested = suggestions(args[0], self.commands, self.get_params(ctx))
            if suggested:
                ctx.fail(f"No such command {args[0]!r}. Did you mean {' or '.join(map(repr, suggested))}?")
        return super().resolve_command(ctx, args)

    def summaries(self) -> Mapping[str, Rows]:
        """Return the commands and their summaries, by heading."""
        return {"Commands": self._rows(self.commands)}

    def _rows(self, names: Iterable[str]) -> Rows:
        width = max(map(len, self.commands))
        return [(each.ljust(width), self.commands[each].get_short_help_str(_LONGEST_SUMMARY)) for each in names]


class SectionedGroup(HelpfulGroup):
    """A group whose help lists its commands in sections, as kubectl does, and the exit codes."""

    sections: ClassVar[Mapping[str, Sequence[str]]]

    def summaries(self) -> Mapping[str, Rows]:
        """Return the commands and their summaries by section, and the meaning of each exit code."""
        codes = [(str(code), meaning) for code, meaning in EXIT_CODES.items()]
        return {section: self._rows(names) for section, names in self.sections.items()} | {"Exit codes": codes}


def split_docstring(command: Command) -> tuple[str, str | None]:
    """Return the help of a command and its epilog with examples, from its docstring."""
    text, heading, examples = (inspect.getdoc(command) or "").partition(_EXAMPLES)
    lines = [f"  {line.strip()}" for line in examples.splitlines()]
    return text.strip(), "\n".join([heading.strip(), *lines]) if heading else None
