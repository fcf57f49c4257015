"""The formats of printed data, how options choose them, and ages, durations and sizes in a table."""

import json
import re
import sys

import msgspec
import pytest
import yaml

from jobs.cli.output import OutputOptions, print_table
from jobs.cli.wording import fill, format_age, format_moment, format_size


class Fruit(msgspec.Struct):
    """An item."""

    name: str
    weight: float


class Basket(msgspec.Struct):
    """A document."""

    fruits: list[Fruit]
    left_out: int


BASKET = Basket([Fruit("pear", 1.5), Fruit("ὄ: -", 2.0)], 3)
AS_DATA = {"fruits": [{"name": "pear", "weight": 1.5}, {"name": "ὄ: -", "weight": 2.0}], "left_out": 3}


@pytest.fixture
def printed(capsys):
    def _print(*, items="fruits", **options):
        OutputOptions(**options).print(BASKET, lambda: sys.stdout.write("for people\n"), items=items)
        return capsys.readouterr().out

    return _print


def test_a_table_is_the_default(printed):
    assert printed() == printed(output="table") == "for people\n"


def test_json_and_yaml_are_one_object_with_a_named_list(printed):
    assert json.loads(printed(output="json")) == AS_DATA
    assert yaml.safe_load(printed(output="yaml")) == AS_DATA


@pytest.mark.parametrize(("items", "expected"), [("fruits", AS_DATA["fruits"]), (None, [AS_DATA])])
def test_json_lines_are_the_elements_of_the_list_or_a_document_without_a_list(printed, items, expected):
    assert [json.loads(line) for line in printed(output="jsonl", items=items).splitlines()] == expected


def test_a_piped_table_has_a_line_for_each_row_however_long_and_no_trailing_spaces(capsys):
    print_table(("NAME", "RATE"), [("a" * 300, "5"), ("b", "12.25")], numbers=("RATE",))
    assert capsys.readouterr().out.splitlines() == [
        f"{'NAME':300}   RATE",
        f"{'a' * 300}      5",
        f"{'b':300}  12.25",
    ]


def test_a_cell_cannot_control_the_terminal_or_be_mistaken_for_markup(capsys):
    print_table(("NAME",), [("[bold]x[/bold]",), ("\x1b[2J",), ("two\nlines",)])
    assert capsys.readouterr().out.splitlines() == ["NAME", "[bold]x[/bold]", "'\\x1b[2J'", "'two\\nlines'"]


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


def test_a_line_is_not_broken_within_a_name():
    name = "a-name-with-hyphens-" * 5
    assert fill(f"see {name} there", "- ", "  ") == f"- see\n  {name}\n  there"


COLUMNS = ("NAME", "RATE", "WHY")
ROWS = [("payments", "12,345", "as agreed with the team"), ("x", "1", "")]


@pytest.fixture
def on_terminal(monkeypatch, capsys):
    """Print a table on a terminal of some columns; its lines without the styles."""

    def lines(width, rows=ROWS, **options):
        monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
        monkeypatch.setenv("COLUMNS", str(width))
        print_table(COLUMNS, rows, numbers=("RATE",), **options)
        return [re.sub(r"\x1b\[[0-9;]*m", "", line).rstrip() for line in capsys.readouterr().out.splitlines()]

    return lines


def test_a_table_that_fits_is_whole(on_terminal):
    assert on_terminal(41, sentences=("WHY",), optional=("WHY",)) == [
        "NAME        RATE  WHY",
        "payments  12,345  as agreed with the team",
        "x              1",
    ]


def test_a_narrow_table_wraps_sentences_between_words(on_terminal):
    assert on_terminal(38, sentences=("WHY",), optional=("WHY",))[1:3] == [
        "payments  12,345  as agreed with the",
        "                  team",
    ]


def test_a_narrower_table_lacks_columns_in_a_fixed_order_and_says_which_and_how_to_see_them(on_terminal):
    assert on_terminal(30, sentences=("WHY",), optional=("WHY", "RATE")) == [
        "NAME        RATE",
        "payments  12,345",
        "x              1",
        "Not shown: WHY (wider",
        "  terminal, or --output json)",
    ]
    assert on_terminal(30, sentences=("WHY",), optional=("RATE", "WHY"))[:2] == [
        "NAME      WHY",
        "payments  as agreed with the",
    ]


def test_a_table_too_narrow_for_its_needed_columns_is_a_list_of_all_values(on_terminal):
    name = "a-name-that-is-longer-than-the-terminal"
    assert on_terminal(24, [(name, "1", "as agreed with the team"), ("x", "2", "")], optional=("WHY",)) == [
        f"NAME: {name}",
        "RATE: 1",
        "WHY:  as agreed with the",
        "      team",
        "",
        "NAME: x",
        "RATE: 2",
        "WHY:",
    ]
