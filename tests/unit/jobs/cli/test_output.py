"""The formats of printed data, and how options choose them."""

import json
import sys

import msgspec
import pytest
import yaml

from jobs.cli.output import OutputFormat, OutputOptions, print_table


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
    assert printed() == printed(output=OutputFormat.TABLE) == "for people\n"


def test_json_is_one_object_with_a_named_list(printed):
    assert json.loads(printed(output=OutputFormat.JSON)) == AS_DATA


def test_yaml_is_the_same_document(printed):
    assert yaml.safe_load(printed(output=OutputFormat.YAML)) == AS_DATA


def test_json_lines_are_the_elements_of_the_list(printed):
    lines = printed(output=OutputFormat.JSONL).splitlines()
    assert [json.loads(line) for line in lines] == AS_DATA["fruits"]


def test_a_document_without_a_list_is_one_json_line(printed):
    (line,) = printed(output=OutputFormat.JSONL, items=None).splitlines()
    assert json.loads(line) == AS_DATA


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
