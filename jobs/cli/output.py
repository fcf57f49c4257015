"""The option `--output` of commands that print data, and functions that print data and tables."""

import shutil
import sys
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, TextIO

import msgspec
import typer

from jobs.cli.wording import fill
from quota.records import codec
from quota.text import printable

_PIPED_WIDTH = 10_000
"""The width of a line [characters] if the output is not a terminal: large enough for each row to be one line."""


OutputFormat = Literal["table", "json", "yaml", "jsonl"]
"""A format of printed data."""


@dataclass(frozen=True, slots=True)
class OutputOptions:
    """The options that choose the format of printed data."""

    output: Annotated[
        OutputFormat | None,
        typer.Option("--output", "-o", help="Print a table (the default), JSON, YAML or JSON lines."),
    ] = None
    default: ClassVar[OutputFormat] = "table"

    @property
    def format(self) -> OutputFormat:
        """The chosen format."""
        return self.output or self.default

    @property
    def for_people(self) -> bool:
        """Whether people read the output, and not a program."""
        return self.format == "table"

    def print(
        self,
        document: msgspec.Struct,
        table: Callable[[], None],
        *,
        items: str | None = None,
        file: TextIO | None = None,
    ) -> None:
        """Print a document in the chosen format; `table` prints the text for people.

        `items` names its list whose elements are the JSON lines; None if the document is one line.
        """
        match self.format:
            case "table":
                table()
            case "json":
                print(codec.encode(document).decode(), file=file)
            case "yaml":
                print(msgspec.yaml.encode(document).decode(), end="", file=file)
            case "jsonl":
                for each in [document] if items is None else getattr(document, items):
                    print(codec.encode(each).decode(), file=file)


@dataclass(frozen=True, slots=True)
class RecordOutputOptions(OutputOptions):
    """The options of a command that prints records as they are on a topic, for another program to read."""

    output: Annotated[
        OutputFormat | None,
        typer.Option("--output", "-o", help="Print JSON lines (the default), a table, JSON or YAML."),
    ] = None
    default: ClassVar[OutputFormat] = "jsonl"


def print_table(
    columns: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    numbers: Collection[str] = (),
    whole: Collection[str] = (),
) -> None:
    """Print a table: fitted to the width of a terminal, or with one line for each row if the output is piped.

    Columns of `numbers` are aligned to the right; cells of `whole` stay on one line in a narrow terminal, too. Control
    characters are escaped.
    """
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for column in columns:
        justify: Literal["left", "right"] = "right" if column in numbers else "left"
        table.add_column(column, justify=justify, overflow="fold", no_wrap=column in whole)
    for row in rows:
        table.add_row(*(Text(printable(cell)) for cell in row))  # a name may look like markup
    console = Console(highlight=False, width=None if sys.stdout.isatty() else _PIPED_WIDTH)
    with console.capture() as captured:
        console.print(table)
    for line in captured.get().splitlines():
        print(line.rstrip())


def print_warnings(warnings: list[str]) -> list[str]:
    """Print warnings on standard error, and return them."""
    for warning in warnings:
        print(f"warning: {printable(warning)}", file=sys.stderr)
    return warnings


def print_text(text: str, file: TextIO | None = None, *, indent: int = 2) -> None:
    """Print a sentence: wrapped at the width of a terminal, or as one line if the output is piped."""
    file = file or sys.stdout
    if file.isatty():
        text = fill(text, "", " " * indent, shutil.get_terminal_size().columns)
    print(text, file=file, flush=True)
