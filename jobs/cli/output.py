"""The option `--output` of commands that print data, and functions that print text."""

import io
import re
import shutil
import sys
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, BinaryIO, Literal, TextIO, cast

import msgspec
import typer

from quota.errors import NotFound
from quota.records import codec
from quota.text import escaped, escaped_json, printable

WIDTH = 80
"""The width of text that is not a table [characters]."""

_LABEL = 14
"""The width of the column of labels [characters]."""

OutputFormat = Literal["table", "json", "yaml", "jsonl"]
"""A format of printed data."""


@dataclass(frozen=True, slots=True)
class OutputOptions:
    """The options that choose the format of printed data."""

    output: Annotated[
        OutputFormat | None,
        typer.Option("--output", "-o", metavar="FORMAT", help="table (the default), json, yaml or jsonl (JSON lines)."),
    ] = None

    @property
    def format(self) -> OutputFormat:
        """The chosen format."""
        return self.output or "table"

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
                print(escaped_json(codec.encode(document).decode()), file=file)
            case "yaml":
                print(msgspec.yaml.encode(document).decode(), end="", file=file)
            case "jsonl":
                for item in [document] if items is None else getattr(document, items):
                    print(escaped_json(codec.encode(item).decode()), file=file)

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


def print_warnings(warnings: list[str]) -> list[str]:
    """Print warnings on standard error, and return them."""
    for warning in warnings:
        print(f"warning: {escaped(warning)}", file=sys.stderr)
    return warnings


def print_text(text: str, file: TextIO | None = None, *, indent: int = 2) -> None:
    """Print a sentence: wrapped at the width of a terminal, or as one line if the output is piped.

    Control characters are escaped.
    """
    file, text = file or sys.stdout, escaped(text)
    if file.isatty():
        text = fill(text, "", " " * indent, shutil.get_terminal_size().columns)
    print(text, file=file, flush=True)


def stdout_bytes() -> BinaryIO:
    """Return standard output for the bytes of a file, whose control characters are escaped on a terminal."""
    return cast("BinaryIO", _Terminal()) if sys.stdout.isatty() else sys.stdout.buffer


class _Terminal(io.RawIOBase):
    def write(self, content: Any) -> int:  # noqa: ANN401 any buffer
        sys.stdout.write(escaped(bytes(content).decode(errors="backslashreplace"), kept="\n\t"))
        return len(content)


def fill(text: str, first: str, others: str, width: int = WIDTH) -> str:
    """Wrap text at `width` characters. Names and numbers are not broken; lists of configs are."""
    wrapper = _Wrapper(
        width, initial_indent=first, subsequent_indent=others, break_on_hyphens=False, break_long_words=False
    )
    return wrapper.fill(text)


class _Wrapper(textwrap.TextWrapper):
    _unit = r"(?:ms|s|min|h|d|mutations?/s)\b"
    wordsep_simple_re = re.compile(rf"((?<!\d)[ \t\n]+|[ \t\n]+(?!{_unit})|(?<=,)(?=[a-z_.]+=))")
    """Where a line may be broken: at white space, but not at U+00A0 or before a unit; and between configs."""


def labelled(label: str, text: str) -> str:
    """Return a label and its text, in lines of at most `WIDTH` characters."""
    head = f"{label}:".ljust(_LABEL)
    return fill(printable(text), head, " " * len(head))
