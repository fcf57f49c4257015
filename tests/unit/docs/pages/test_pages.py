"""Pages say what the code does: alerts, defaults, names, settings, files, views and messages that there are."""

import ast
import importlib
import re
from functools import cache

import pytest
import yaml

from jobs.report.queries import EFFECTIVE
from quota.settings import load_settings
from quota.timeline.quota_file import read_quota_file
from tests.support.checkout import CHECKOUT

REFERENCE = CHECKOUT / "docs" / "reference"
METRICS, ERRORS = (REFERENCE / "monitoring" / "metrics.md").read_text(), (REFERENCE / "errors.md").read_text()
MESSAGES = re.findall(r"^\| `([^`]+)` \| (.+) \| (.+) \|$", ERRORS, re.MULTILINE)


def test_each_alert_is_explained():
    alerts = yaml.safe_load((CHECKOUT / "conf/prometheus/alerts.yaml").read_text())
    names = [rule["alert"] for group in alerts["groups"] for rule in group["rules"]]
    assert re.findall(r"^\| `(\w+)` \|", METRICS.partition("\n## Alerts\n")[2], re.MULTILINE) == names


def test_the_settings_of_the_metrics_have_these_defaults():
    (most,) = re.findall(r"`metrics.max_tenants` \((\d+)\)", METRICS)
    metrics = load_settings(environment={}).metrics
    assert (metrics.port, metrics.address, metrics.max_tenants) == (0, "127.0.0.1", int(most))


def test_the_file_on_the_page_of_quotas_is_valid():
    (file,) = re.findall(r"```yaml\n(.*?)```", (CHECKOUT / "docs/how-to/quotas.md").read_text(), re.DOTALL)
    assert [str(each.entity) for each in read_quota_file(file.encode(), "the page")] == [
        "the default user-principal",
        "user-principal 'alice'",
        "client-id 'etl'",
    ]


@pytest.mark.parametrize("module", ["quota.kafka.admin", "quota.callbacks", "quota.testing", "quota.settings"])
def test_each_name_that_a_public_module_exports_is_shown(module):
    page = (REFERENCE / "python.md").read_text()
    assert set(re.findall(rf"^::: {re.escape(module)}\.(\w+)$", page, re.MULTILINE)) == set(
        importlib.import_module(module).__all__
    )


def test_settings_on_the_pages_of_operations_exist():
    settings = (CHECKOUT / "conf" / "mutation-quota.toml").read_text()
    pages = [each.read_text() for each in (CHECKOUT / "docs/how-to/operations").glob("*.md")]
    named = re.findall(r"`(?:enforce|topics|storage|quota)\.(?!yaml)([a-z_]+)", " ".join(pages))
    assert named
    for each in named:
        assert re.search(rf"^(# |\[storage\.){each}\b", settings, re.MULTILINE), each


def test_both_views_of_mutations_include_the_effective_ones():
    assert (REFERENCE / "tables.md").read_text().count(f"WHERE {EFFECTIVE.format(number='number')}") == 2


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


@pytest.mark.parametrize("message", [message for message, _, _ in MESSAGES])
def test_quoted_messages_occur_in_the_code(message):
    assert is_printed(message)


def test_each_table_of_messages_is_read():
    assert len(MESSAGES) == sum(line.startswith("| `") for line in ERRORS.splitlines()) > 50
