"""The option `--output` of commands that print data, and functions that print data and tables."""

import shutil
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, TextIO

import msgspec
import typer

from jobs.cli.wording import fill, format_moment
from quota.errors import NotFound
from quota.kafka.timing import now_ms
from quota.records import codec
from quota.text import format_time, printable

_PIPED_WIDTH = 10_000
"""The width of a line [characters] if the output is not a terminal: large enough for each row to be one line."""

_GAP = 2
"""The width between two columns [characters]."""

_SENTENCE = 20
"""The width to which a column of sentences is wrapped at least [characters]."""


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
                for item in [document] if items is None else getattr(document, items):
                    print(codec.encode(item).decode(), file=file)

    def print_found(
        self, document: msgspec.Struct, table: Callable[[], None], *, items: str, none: str, selected: bool
    ) -> None:
        """Print a document with a list as `print` does; `none` says that the list is empty.

        Raises NotFound if it is empty and the options `selected` what to list, after a program has its empty document.
        """
        if getattr(document, items):
            self.print(document, table, items=items)
            return
        if not (selected and self.for_people):
            self.print(document, lambda: print_text(f"{none[0].upper()}{none[1:]}."), items=items)
        if selected:
            raise NotFound(none)


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
    sentences: Collection[str] = (),
    optional: Sequence[str] = (),
) -> None:
    """Print a table. If the output is not a terminal, a row is one line, however long.

    On a terminal, only headings and cells of `sentences` are wrapped, and at spaces. If the table is still too wide, it
    lacks columns: the first of `optional` first. If it is too wide without them, each row is a list of all its values.
    Columns of `numbers` are aligned to the right. Control characters are escaped.
    """
    content = {column: [printable(cell) for cell in cells] for column, *cells in zip(columns, *rows, strict=True)}
    if not sys.stdout.isatty():
        _print_columns({column: (cells, None) for column, cells in content.items()}, numbers, _PIPED_WIDTH)
        return
    width = shutil.get_terminal_size().columns
    sizes = {column: _Size.of(column, cells, column in sentences) for column, cells in content.items()}
    dropped: list[str] = []
    for column in optional:
        if _fits(sizes, width):
            break
        dropped.append(column)
        del sizes[column]
    if not _fits(sizes, width):
        _print_lists(content, width)
        return
    widths = _widths(sizes, width)
    _print_columns({column: (content[column], widths[column]) for column in sizes}, numbers, width)
    if dropped:
        names = ", ".join(column for column in columns if column in dropped)
        print_text(f"Not shown: {names} (wider terminal, or --output json)")


@dataclass(frozen=True, slots=True)
class _Size:
    """The width of a column [characters]: without and with wrapping."""

    most: int
    least: int

    @classmethod
    def of(cls, column: str, cells: Sequence[str], wraps: bool) -> "_Size":
        from rich.cells import cell_len

        of_cells = max(map(cell_len, cells), default=0)
        most = max(cell_len(column), of_cells)
        words = max(cell_len(word) for text in (column, *(cells if wraps else ())) for word in text.split() or [""])
        return cls(most, max(words, min(_SENTENCE, of_cells) if wraps else of_cells))


def _fits(sizes: Mapping[str, _Size], width: int) -> bool:
    return sum(size.least + _GAP for size in sizes.values()) - _GAP <= width


def _widths(sizes: Mapping[str, _Size], width: int) -> dict[str, int]:
    """Return the widths of columns that fit: the space left over goes to those that need the least more."""
    widths = {column: size.least for column, size in sizes.items()}
    left = width + _GAP - sum(column_width + _GAP for column_width in widths.values())
    by_need = sorted(sizes, key=lambda column: sizes[column].most - sizes[column].least)
    for number, column in enumerate(by_need):
        more = min(sizes[column].most - widths[column], left // (len(by_need) - number))
        widths[column] += more
        left -= more
    return widths


def _print_columns(
    columns: Mapping[str, tuple[Sequence[str], int | None]], numbers: Collection[str], width: int
) -> None:
    """Print columns of cells with their widths; a column without one is as wide as its cells."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="bold")
    for column, (_, of_column) in columns.items():
        justify: Literal["left", "right"] = "right" if column in numbers else "left"
        table.add_column(column, justify=justify, width=of_column, overflow="fold")
    for row in zip(*(cells for cells, _ in columns.values()), strict=True):
        table.add_row(*map(Text, row))  # a name may look like markup
    console = Console(highlight=False, width=width + _GAP)  # the last column has a gap, too
    with console.capture() as captured:
        console.print(table)
    for line in captured.get().splitlines():
        print(line.rstrip())


def _print_lists(content: Mapping[str, Sequence[str]], width: int) -> None:
    """Print each row as a list of names and values, with an empty line between two rows."""
    label = max(map(len, content)) + len(": ")
    for number, row in enumerate(zip(*content.values(), strict=True)):
        if number:
            print()
        for column, cell in zip(content, row, strict=True):
            print(fill(cell, f"{column}: ".ljust(label), " " * label, width).rstrip() or f"{column}:")


def table_time(moment: int) -> str:
    """Format a time (epoch ms) for a table: on a terminal to the second, and without today's date."""
    return format_moment(now_ms(), moment) if sys.stdout.isatty() else format_time(moment)


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
