"""The formats of printed data, how options choose them, and the width of text."""

import json
import sys

import msgspec
import pytest
import yaml

from jobs.cli.output import OutputOptions, fill, print_text


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


def test_a_line_is_not_broken_within_a_name():
    name = "a-name-with-hyphens-" * 5
    assert fill(f"see {name} there", "- ", "  ") == f"- see\n  {name}\n  there"


def test_a_sentence_is_broken_at_spaces_and_between_configs_on_a_terminal_alone(monkeypatch, capsys):
    configs = "controller_mutation_rate=5.0,controller_mutation_burst=1000.0,max_debt_ms=60000,shadow=true"
    text = f"Updated: {configs} from 12,000 on."
    print_text(text)
    assert capsys.readouterr().out == f"{text}\n"
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    print_text(text)
    assert capsys.readouterr().out.splitlines() == [
        "Updated: controller_mutation_rate=5.0,controller_mutation_burst=1000.0,",
        "  max_debt_ms=60000,shadow=true from 12,000 on.",
    ]
