"""The output of passing tests contains nothing of a Kafka client's own log."""

import ast

import pytest

from tests.support.checkout import CHECKOUT

CLIENTS = {"Producer", "Consumer", "AdminClient", "QuotaAdminClient"}
FILES = sorted((CHECKOUT / "tests").rglob("*.py"))


def loud_clients(code):
    """Yield the lines that create a client from a dict without a setting for librdkafka's log."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in CLIENTS:
            config = {ast.unparse(part) for dicts in node.args if isinstance(dicts, ast.Dict) for part in parts(dicts)}
            if "'bootstrap.servers'" in config and not config & {"'log_level'", "QUIET"}:
                yield node.lineno


def parts(config):
    """Return the keys of a dict, and what is spread into it."""
    return [key or value for key, value in zip(config.keys, config.values, strict=True)]


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(CHECKOUT / "tests")))
def test_clients_in_tests_log_nothing(file):
    """It would write into pytest's output that it cannot connect, once its broker has stopped."""
    assert list(loud_clients(file.read_text())) == []


def test_a_client_that_logs_is_detected():
    assert list(loud_clients('a = 1\nAdminClient({"bootstrap.servers": "x"})')) == [2]
    assert list(loud_clients('AdminClient({**QUIET, "bootstrap.servers": "x"})')) == []
    assert list(loud_clients('Producer({"bootstrap.servers": "x", "log_level": 2})')) == []
