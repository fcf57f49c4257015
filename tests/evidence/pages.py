"""Pages and tables of results: for the terminal while a program runs, and in Markdown for docs/."""

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table as TerminalTable

NOTHING = "-"


@dataclass(frozen=True, slots=True)
class Table:
    """Headings and rows; the first `words` columns hold words, the others numbers."""

    title: str
    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    words: int

    def drawn(self) -> TerminalTable:
        """Return the table for a terminal."""
        table = TerminalTable(title=self.title, title_justify="left", box=box.SIMPLE_HEAD)
        for number, heading in enumerate(self.headings):
            table.add_column(heading, justify="left" if number < self.words else "right")
        for row in self.rows:
            table.add_row(*row)
        return table

    def markdown(self) -> str:
        """Return the table for a page."""
        rules = ["---" if number < self.words else "---:" for number in range(len(self.headings))]
        return "\n".join(f"| {' | '.join(row)} |" for row in (self.headings, rules, *self.rows))


def milliseconds(seconds: float | None) -> str:
    """Return seconds as whole milliseconds with separators; `NOTHING` for None."""
    return NOTHING if seconds is None else f"{seconds * 1000:,.0f}"


def versions(*packages: str) -> str:
    """Return packages with their installed versions."""
    return ", ".join(f"{name} {version(name)}" for name in packages)


def terminal(columns: int) -> Console:
    """Return a console as wide as the terminal, or `columns` wide if standard output is a file or a pipe."""
    return Console(soft_wrap=True, width=None if sys.stdout.isatty() else columns)


def progress(console: Console) -> Callable[[str], None]:
    """Return a function that prints a line of progress, with the seconds since this call."""
    began = time.monotonic()

    def notify(line: str) -> None:
        console.print(f"{time.monotonic() - began:5.0f} s  {line}", highlight=False)

    return notify


def write_page(file: Path, text: str, console: Console) -> None:
    """Write a page of docs/, and print its path."""
    file.write_text(text)
    console.print(f"written: {file}")
