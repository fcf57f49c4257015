"""The threat model names tests, and they are there."""

import ast
import re

from tests.support.checkout import CHECKOUT

PAGE = CHECKOUT / "docs/explanation/security.md"


def test_each_test_that_the_threat_model_names_is_there():
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", PAGE.read_text())
    assert len(named) > 30
    missing = [f"{file}::{name}" for file, name in named if name not in functions(CHECKOUT / file)]
    assert missing == []


def test_each_threat_has_a_test():
    threats = PAGE.read_text().split("## Threats")[1].split("\n## ")[0]
    _, _, *rows = [line for line in threats.splitlines() if line.startswith("|")]
    assert len(rows) > 20
    assert [row for row in rows if "`tests/" not in row] == []


def functions(file):
    return {node.name for node in ast.parse(file.read_text()).body if isinstance(node, ast.FunctionDef)}
