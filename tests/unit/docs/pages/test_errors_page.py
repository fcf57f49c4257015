"""The page of errors quotes messages of the code, and says what to do about each."""

import ast
import re
from functools import cache

import pytest

from tests.support.checkout import CHECKOUT

PAGE = (CHECKOUT / "docs/reference/errors.md").read_text()
ROWS = re.findall(r"^\| `([^`]+)` \| (.+) \| (.+) \|$", PAGE, re.MULTILINE)


@cache
def messages():
    """All texts in the code but docstrings; a value inside a text is a NUL."""
    found = []
    for package in ("jobs", "quota"):
        for file in (CHECKOUT / package).rglob("*.py"):
            tree = ast.parse(file.read_text())
            docstrings = {node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)}
            for node in set(ast.walk(tree)) - docstrings:
                match node:
                    case ast.JoinedStr(values=values):
                        found.append("".join(each.value if isinstance(each, ast.Constant) else "\0" for each in values))
                    case ast.Constant(value=str(text)):
                        found.append(re.sub(r"\{\w+\}|%s", "\0", text))
    # as `quota.kafka.clients.cluster_errors` and `quota.kafka.brokers.client_quotas` compose them
    return [*found, *(f"cannot {each}" for each in found), *(f"cannot {each} Kafka at \0" for each in found)]


def is_printed(message):
    pattern = re.compile(".*".join(map(re.escape, message.split("…"))))
    return any(map(pattern.search, messages()))


@pytest.mark.parametrize("message", [message for message, _, _ in ROWS])
def test_quoted_messages_occur_in_the_code(message):
    assert is_printed(message)


def test_each_table_of_messages_is_read():
    assert len(ROWS) == sum(line.startswith("| `") for line in PAGE.splitlines()) > 50
