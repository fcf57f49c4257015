"""The reference of commands documents their output."""

import ast
import inspect
import re

import msgspec
import pytest
from typer.main import get_command

from conf.docs.commands_page import command_sections
from jobs.__main__ import app
from schemas.command_schemas import DOCUMENTS, ITEMS
from tests.support.checkout import CHECKOUT

PAGE = "\n".join(command_sections())
BY_HAND = {"simulate"}
"""Commands that print JSON lines as they come, without `OutputOptions.print`."""


def items_in(source):
    """The lists of which code prints the elements as JSON lines."""
    calls = [each for each in ast.walk(ast.parse(source)) if isinstance(each, ast.Call)]
    return {word.value.value for each in calls for word in each.keywords if word.arg == "items"}


def function_of(name):
    """The source of a command's function, by the command's words."""
    root = get_command(app)
    group, _, rest = name.partition("-")
    for words in ((name,), (group, rest), tuple(name.rsplit("-", 1))):
        command = root
        for word in words:
            command = getattr(command, "commands", {}).get(word)
        if command is not None:
            return inspect.getsource(inspect.unwrap(command.callback))
    raise LookupError(name)


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("status", "the output is one line"),
        ("quotas-describe", "each line is an element of `quotas`"),
        ("simulate", "each line is an element of `decisions` or `dead_letters`"),
        (
            "quotas-pull",
            "each line is an element of `changes` if `--apply` is given; otherwise the output is one line",
        ),
    ],
)
def test_a_command_that_prints_data_links_its_schema_and_says_what_a_json_line_is(name, line):
    link = f"[`{name}.schema.json`](../../schemas/json/output/{name}.schema.json)"
    assert f"JSON Schema of the output: {link}. With `--output jsonl`, {line}.\n" in PAGE


def test_the_schema_of_each_command_that_prints_data_is_linked_once():
    assert sorted(re.findall(r"output/([a-z-]+)\.schema\.json\)", PAGE)) == sorted(DOCUMENTS)


@pytest.mark.parametrize("name", sorted(ITEMS))
def test_elements_are_those_of_lists_of_the_document(name):
    fields = {each.name: each.type for each in msgspec.structs.fields(DOCUMENTS[name])}
    assert [each for each in ITEMS[name] if getattr(fields[each], "__origin__", None) is not list] == []


@pytest.mark.parametrize("name", sorted(DOCUMENTS))
def test_elements_are_those_that_the_command_prints(name):
    """This covers commands whose own function prints; the next test finds functions that they call."""
    printed = items_in(function_of(name))
    assert printed <= set(ITEMS.get(name, ()))


def test_each_list_printed_as_elements_belongs_to_a_command():
    printed = set().union(*(items_in(path.read_text()) for path in (CHECKOUT / "jobs/cli").rglob("*.py")))
    assert printed == {each for name, lists in ITEMS.items() if name not in BY_HAND for each in lists}
