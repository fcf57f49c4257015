"""The runbook names what the programs say, and commands and files that there are."""

import ast
import re

from tests.support.checkout import CHECKOUT

PAGE = (CHECKOUT / "docs/how-to/operations.md").read_text()


def said():
    """All texts in the code, those in pieces as a whole."""
    for package in ("jobs", "quota"):
        for file in (CHECKOUT / package).rglob("*.py"):
            for node in ast.walk(ast.parse(file.read_text())):
                match node:
                    case ast.JoinedStr(values=values):
                        yield "".join(each.value if isinstance(each, ast.Constant) else "\0" for each in values)
                    case ast.Constant(value=str(text)):
                        yield re.sub(r"\{\w+\}|%s", "\0", text)


def test_what_the_table_quotes_is_said():
    texts = list(said())
    texts += [f"cannot {each}" for each in texts]  # as `quota.kafka.clients.cluster_errors` puts it
    table = PAGE.partition("| it says |")[2]
    quoted = re.findall(r"^\| `([^`]+)` \|", table, re.MULTILINE)
    assert len(quoted) > 20
    for each in quoted:
        pattern = re.compile(".*".join(map(re.escape, each.split("…"))), re.DOTALL)
        assert any(map(pattern.search, texts)), each


def test_the_settings_that_it_names_are_there():
    settings = (CHECKOUT / "conf" / "mutation-quota.toml").read_text()
    named = re.findall(r"`(?:enforce|topics|storage|quota)\.(?!yaml)([a-z_]+)", PAGE)
    assert named
    for each in named:
        assert re.search(rf"^(# |\[storage\.){each}\b", settings, re.MULTILINE), each
