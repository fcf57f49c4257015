"""The threat model links tests, and they are there."""

import ast
import re

from tests.support.checkout import CHECKOUT

PAGE = CHECKOUT / "docs/explanation/security.md"


_LINK = re.compile(r"\]\(\.\./\.\./(tests/[\w/]+\.py)\)(?:<!-- ([\w ]+) -->)?")
"""A link to a file of tests, and the names of the tests, in a comment that readers do not see."""


def test_tests_named_by_the_threat_model_exist():
    named = [(file, name) for file, names in _LINK.findall(PAGE.read_text()) for name in names.split()]
    assert len(named) > 80
    missing = [f"{file}::{name}" for file, name in named if name not in functions(CHECKOUT / file)]
    assert missing == []


def test_each_threat_has_a_test_and_each_link_to_tests_names_some():
    tables = [part.split("\n## ")[0] for part in PAGE.read_text().split("## Threats")[1:]]
    threats = [line for table in tables for line in table.splitlines() if re.match(r"\| (?!threat \||---)", line)]
    assert len(threats) > 40
    assert [row for row in threats if not _LINK.search(row)] == []
    assert [file for file, names in _LINK.findall(PAGE.read_text()) if not names] == []


def functions(file):
    return {node.name for node in ast.parse(file.read_text()).body if isinstance(node, ast.FunctionDef)}
