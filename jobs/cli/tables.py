"""Tables of a document's items: a column is a field, formatted by its type and by the unit in its name."""

import shutil
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from msgspec import UnsetType

from jobs.cli.output import fill, print_text
from quota.algorithms.token_bucket import MAX_THROTTLE_MS
from quota.kafka.timing import now_ms
from quota.text import display_name, format_duration, format_tags, format_time, format_tokens, printable

if TYPE_CHECKING:
    from quota.records.decision import Decision

Columns: TypeAlias = Mapping[str, "str | Callable[[Any], object]"]
"""The columns of a table by their headings: the path of a field, or a function that returns its value of an item."""

QUOTA: Columns = {
    "USER": lambda item: display_name(item.entity.user),
    "CLIENT-ID": lambda item: display_name(item.entity.client_id),
    "RATE/S": "quota.rate",
    "BURST": "quota.burst",
    "MAX DEBT": "quota.max_debt_ms",
    "MAX/TOPIC": "quota.max_request_mutations",
}
"""The columns of an entity with its quota."""

_TIMES = ("timestamp", "since", "at")
"""Fields that are times, besides those whose name ends with `_at` [epoch ms]."""

_MISSING = "-"
_PIPED_WIDTH = 10_000
"""The width of a line [characters] if the output is not a terminal: large enough for each row to be one line."""

_GAP = 2
"""The width between two columns [characters]."""

_TEXT = 20
"""The width to which a column of texts is wrapped at least [characters]."""

_SECOND = 1000
_SECONDS = len("00:00:00")
_SIZES = ("B", "KiB", "MiB", "GiB", "TiB")
_STEP = 1024
_FEW = 10


def print_rows(
    items: Iterable[object],
    columns: Columns,
    *,
    optional: Sequence[str] = (),
    last: Mapping[str, object] | None = None,
) -> None:
    """Print a table with a row for each item. If the output is not a terminal, a row is one line, however long.

    On a terminal, only headings and texts are wrapped, and at spaces. If the table is still too wide, it lacks columns:
    the first of `optional` first. If it is too wide without them, each row is a list of all its values. Columns of
    `optional` without any value are always left out. Control characters are escaped.

    `last` is one more row, which has only the values of some columns. A missing value is `-`.
    """
    items = list(items)
    table = [_Column.of(heading, field, items, last) for heading, field in columns.items()]
    table = [column for column in table if column.heading not in optional or {*column.cells} - {_MISSING, ""}]
    if not sys.stdout.isatty():
        _print_columns({column: column.most for column in table}, _PIPED_WIDTH)
        return
    width = shutil.get_terminal_size().columns
    shown = list(table)
    for heading in optional:
        if _fits(shown, width):
            break
        shown = [column for column in shown if column.heading != heading]
    if not _fits(shown, width):
        _print_lists(table, width)
        return
    _print_columns(_widths(shown, width), width)
    if dropped := [column.heading for column in table if column not in shown]:
        print_text(f"Not shown: {', '.join(dropped)} (wider terminal, or --output json)")


@dataclass(frozen=True, slots=True, eq=False)
class _Column:
    """A column, and its width [characters] without and with wrapping."""

    heading: str
    cells: Sequence[str]
    is_number: bool
    most: int
    least: int

    @classmethod
    def of(
        cls,
        heading: str,
        field: str | Callable[[Any], object],
        items: Collection[object],
        last: Mapping[str, object] | None,
    ) -> "_Column":
        from rich.cells import cell_len

        name = field.rpartition(".")[2] if isinstance(field, str) else ""
        values = [_value(item, field) if isinstance(field, str) else field(item) for item in items]
        values += [] if last is None else [last.get(heading, "")]
        cells = [_cell(name, value) for value in values]
        has_numbers = any(isinstance(value, int | float) and not isinstance(value, bool) for value in values)
        of_cells = max(map(cell_len, cells), default=0)
        wrapped, least = ([], of_cells) if has_numbers else (cells, min(_TEXT, of_cells))
        words = (word for text in (heading, *wrapped) for word in text.split())
        least = max(least, *map(cell_len, words))
        return cls(heading, cells, has_numbers and not _is_time(name), max(cell_len(heading), of_cells), least)


def _value(item: object, path: str) -> object:
    """Return the field of an item; None if a struct on the path is None."""
    for name in path.split("."):
        item = None if item is None else getattr(item, name)
    return item


def _cell(name: str, value: object) -> str:
    match value:
        case None | UnsetType():
            return _MISSING
        case bool():
            return "yes" if value else "no"
        case int() | float():
            return _number(name, value)
        case Enum():
            return str(value.value)
        case Mapping():
            return printable(format_tags(value))
        case _:
            return printable(str(value))


def _number(name: str, value: float) -> str:
    if _is_time(name):
        moment = int(value)
        return format_moment(now_ms(), moment) if sys.stdout.isatty() else format_time(moment)
    if name.endswith("_ms"):
        return _duration(value)
    if name.endswith("_seconds"):
        return _duration(value * _SECOND)
    if name.endswith("_bytes"):
        return format_size(int(value))
    if name.startswith("tokens"):
        return format_tokens(value)
    return f"{value:,}" if isinstance(value, int) else f"{value:.10g}"


def _is_time(name: str) -> bool:
    return name in _TIMES or name.endswith("_at")


def _duration(milliseconds: float) -> str:
    capped = milliseconds == MAX_THROTTLE_MS  # the longest throttle time that Kafka's protocol can tell
    return f"over {MAX_THROTTLE_MS // 86_400_000} d" if capped else format_duration(milliseconds)


def _fits(columns: Sequence[_Column], width: int) -> bool:
    return sum(column.least + _GAP for column in columns) - _GAP <= width


def _widths(columns: Sequence[_Column], width: int) -> dict[_Column, int]:
    """Return the widths of columns that fit: the space left over goes to those that need the least more."""
    widths = {column: column.least for column in columns}
    left = width + _GAP - sum(of_column + _GAP for of_column in widths.values())
    by_need = sorted(columns, key=lambda column: column.most - column.least)
    for number, column in enumerate(by_need):
        more = min(column.most - column.least, left // (len(by_need) - number))
        widths[column] += more
        left -= more
    return widths


def _print_columns(widths: Mapping[_Column, int], width: int) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="bold")
    for column, of_column in widths.items():
        justify: Literal["left", "right"] = "right" if column.is_number else "left"
        table.add_column(column.heading, justify=justify, width=of_column, overflow="fold")
    for row in zip(*(column.cells for column in widths), strict=True):
        table.add_row(*map(Text, row))  # a name may look like markup
    # The last column has a gap, too. Without a height, rich takes a terminal of TERM=dumb for one of 80 columns.
    console = Console(highlight=False, width=width + _GAP, height=1)
    with console.capture() as captured:
        console.print(table)
    for line in captured.get().splitlines():
        print(line.rstrip())


def _print_lists(columns: Sequence[_Column], width: int) -> None:
    label = max(len(column.heading) for column in columns) + len(": ")
    for number, row in enumerate(zip(*(column.cells for column in columns), strict=True)):
        if number:
            print()
        for column, cell in zip(columns, row, strict=True):
            if cell:
                print(fill(cell, f"{column.heading}: ".ljust(label), " " * label, width))


def sender(item: Any) -> str:  # noqa: ANN401 anything with a user and a client-id
    """Return the user and the client-id of an item in one text."""
    return f"{item.user or '-'} / {item.client_id or '-'}"


def outcome(decision: "Decision") -> str:
    """Return the outcome of a decision; in shadow mode, the outcome that is not enforced."""
    if decision.withdraws:
        return f"{decision.outcome.value} (withdrawal)"
    if decision.validate_only:
        return f"{decision.outcome.value} (validate only)"
    return decision.outcome.value if decision.shadow is None else f"{decision.shadow.outcome.value} (shadow)"


def format_moment(at: int, moment: int) -> str:
    """Format a time (epoch ms) for a terminal, in UTC to the second, and without the date if it is the date of `at`."""
    date, _, time = format_time(moment).partition("T")
    time = f"{time[:_SECONDS]}Z"
    return time if format_time(at).startswith(date) else f"{date}T{time}"


def format_age(at: int, moment: int | None) -> str:
    """Format the age of a time at `at`, both epoch ms; `-` for None."""
    if moment is None:
        return "-"
    age = max(0, at - moment) // _SECOND * _SECOND
    return f"{format_duration(age)} ago" if age else "now"


def format_size(size_bytes: int) -> str:
    """Format a size [bytes] in its largest unit."""
    size = float(size_bytes)
    for unit in _SIZES[:-1]:
        if size < _STEP:
            return f"{size:.0f} {unit}" if unit == _SIZES[0] or size >= _FEW else f"{size:.1f} {unit}"
        size /= _STEP
    return f"{size:.1f} {_SIZES[-1]}"
