"""Tables of items: their columns, the units of values, and how they fit a terminal."""

import re
import sys
from enum import Enum

import msgspec
import pytest
from msgspec import UNSET

from jobs.cli.tables import format_age, format_moment, format_size, print_rows


class Outcome(Enum):
    """A value of an item."""

    ADMITTED = "admitted"


class Rate(msgspec.Struct):
    """A part of an item."""

    rate: float


class Item(msgspec.Struct):
    """An item; its fields have the names of fields of documents."""

    name: str
    quota: Rate | None = None
    value: object = None
    timestamp: int = 1_728_043_200_000
    tokens: float = -0.01
    debt_ends_in_ms: int = 2**31 - 1
    throttled_seconds: float = 90.0
    size_bytes: int = 1536


@pytest.fixture
def printed(capsys):
    def lines(items, columns, **options):
        print_rows(items, columns, **options)
        return [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]

    return lines


@pytest.mark.parametrize(
    ("field", "cell"),
    [
        ("timestamp", "2024-10-04T12:00:00.000Z"),
        ("tokens", "-0.1"),
        ("debt_ends_in_ms", "over 24 d"),
        ("throttled_seconds", "1 min 30 s"),
        ("size_bytes", "1.5 KiB"),
        ("quota.rate", "-"),
        (lambda item: len(item.name) * 1000, "4,000"),
    ],
)
def test_a_number_has_the_unit_of_its_field(printed, field, cell):
    assert printed([Item("pear")], {"NAME": "name", "VALUE": field})[1] == f"pear {cell}"


@pytest.mark.parametrize(
    ("value", "cell"),
    [
        (None, "-"),
        (UNSET, "-"),
        (True, "yes"),
        (False, "no"),
        (12_345, "12,345"),
        (12_345.5, "12345.5"),
        (Outcome.ADMITTED, "admitted"),
        ({"user": "alice"}, "user 'alice'"),
        ("[bold]x[/bold]", "[bold]x[/bold]"),
        ("\x1b[2J", "'\\x1b[2J'"),
        ("two\nlines", "'two\\nlines'"),
    ],
)
def test_a_value_is_printed_by_its_type_and_cannot_control_the_terminal(printed, value, cell):
    assert printed([Item("pear", value=value)], {"VALUE": "value"}) == ["VALUE", cell]


def test_a_piped_table_has_a_line_for_each_row_however_long_and_no_trailing_spaces(capsys):
    print_rows([Item("a" * 300, Rate(5.0)), Item("b", Rate(12.25))], {"NAME": "name", "RATE": "quota.rate"})
    assert capsys.readouterr().out.splitlines() == [
        f"{'NAME':300}   RATE",
        f"{'a' * 300}      5",
        f"{'b':300}  12.25",
    ]


def test_an_age_is_relative_to_the_current_time_and_is_never_negative():
    assert [format_age(100_000, age) for age in (40_000, 99_500, 200_000, None)] == ["1 min ago", "now", "now", "-"]


@pytest.mark.parametrize(
    ("moment", "text"),
    [
        (1_728_000_000_000, "00:00:00Z"),
        (1_727_999_999_999, "2024-10-03T23:59:59Z"),
        (1_728_086_400_000, "2024-10-05T00:00:00Z"),
    ],
)
def test_a_time_of_the_current_day_is_shown_without_the_date(moment, text):
    """The current time is 2024-10-04T12:00:00Z."""
    assert format_moment(1_728_043_200_000, moment) == text


@pytest.mark.parametrize(
    ("size", "text"), [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (50_000_000, "48 MiB"), (2**50, "1024.0 TiB")]
)
def test_a_size_is_shown_in_its_largest_unit(size, text):
    assert format_size(size) == text


COLUMNS = {"NAME": lambda row: row[0], "RATE": lambda row: row[1], "WHY": lambda row: row[2]}
ROWS = [("payments", 12_345, "as agreed with the team"), ("x", 1, "")]


@pytest.fixture
def on_terminal(monkeypatch, capsys):
    """Print a table on a terminal of some columns; its lines without the styles."""

    def lines(width, rows=ROWS, **options):
        monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
        monkeypatch.setenv("COLUMNS", str(width))
        print_rows(rows, COLUMNS, **options)
        return [re.sub(r"\x1b\[[0-9;]*m", "", line).rstrip() for line in capsys.readouterr().out.splitlines()]

    return lines


def test_a_narrow_table_wraps_sentences_between_words(on_terminal):
    assert on_terminal(38, optional=("WHY",))[1:3] == [
        "payments  12,345  as agreed with the",
        "                  team",
    ]


def test_a_table_too_narrow_for_its_needed_columns_is_a_list_of_all_values(on_terminal):
    """The last row of a table has few."""
    name = "a-name-that-is-longer-than-the-terminal"
    assert on_terminal(24, [(name, 1, "as agreed with the team"), ("x", 2, "")], optional=("WHY",)) == [
        f"NAME: {name}",
        "RATE: 1",
        "WHY:  as agreed with the",
        "      team",
        "",
        "NAME: x",
        "RATE: 2",
    ]


def test_a_terminal_without_capabilities_has_its_width(on_terminal, monkeypatch):
    monkeypatch.setenv("TERM", "dumb")
    assert on_terminal(120, [("a" * 100, 1, "short")])[1] == f"{'a' * 100}     1  short"
