"""Pages say what there is: alerts, defaults, settings, files, functions, views, messages, and tests of threats."""

import ast
import importlib
import re
from functools import cache

import pytest
import yaml

from quota.planning.quota_file import read_quota_file
from quota.settings import load_settings
from tests.support.checkout import CHECKOUT

REFERENCE = CHECKOUT / "docs" / "reference"
METRICS, ERRORS = (REFERENCE / "monitoring" / "metrics.md").read_text(), (REFERENCE / "errors.md").read_text()
SECURITY = (CHECKOUT / "docs/explanation/security.md").read_text()
GUARANTEES = (CHECKOUT / "docs/explanation/guarantees.md").read_text()
MESSAGES = re.findall(r"^\| `([^`]+)` \| (.+) \| (.+) \|$", ERRORS, re.MULTILINE)


def test_each_alert_is_explained():
    alerts = yaml.safe_load((CHECKOUT / "conf/prometheus/alerts.yaml").read_text())
    names = [rule["alert"] for group in alerts["groups"] for rule in group["rules"]]
    assert re.findall(r"^\| `(\w+)` \|", METRICS.partition("\n## Alerts\n")[2], re.MULTILINE) == names


def test_the_settings_of_the_metrics_have_these_defaults():
    metrics = load_settings(environment={}).metrics
    assert (metrics.port, metrics.address) == (0, "127.0.0.1")


def test_the_file_on_the_page_of_quotas_is_valid():
    (file,) = re.findall(r"```yaml\n(.*?)```", (CHECKOUT / "docs/how-to/quotas.md").read_text(), re.DOTALL)
    assert [str(entry.entity) for entry in read_quota_file(file.encode(), "the page")] == [
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


def test_a_default_in_brackets_after_a_setting_is_its_default():
    """As in `audit.upkeep_seconds` (300) and `storage.lease_seconds` (45 s)."""
    settings = load_settings(environment={})
    pages = [page.read_text() for page in (*CHECKOUT.glob("*.md"), *(CHECKOUT / "docs").rglob("*.md"))]
    stated = re.findall(r"`(\w+)\.(\w+)`\s\(([\d,.]+)(?: s| by default)?\)", " ".join(pages))
    wrong = [
        (section, key, number)
        for section, key, number in stated
        if getattr(getattr(settings, section), key) != float(number.replace(",", ""))
    ]
    assert len(stated) > 5
    assert wrong == []


def test_a_duration_of_a_target_on_a_page_is_that_of_the_makefile():
    told = dict(
        re.findall(r"^([\w-]+):.*## .*?;(.* (?:min|s)\b.*)$", (CHECKOUT / "Makefile").read_text(), re.MULTILINE)
    )
    pages = [(CHECKOUT / name).read_text() for name in ("README.md", "CONTRIBUTING.md")]
    stated = re.findall(r"^make ([\w-]+) +#.*?;(.*)$", "\n".join(pages), re.MULTILINE)
    compared = [(target, text) for target, text in stated if target in told]
    assert compared
    for target, text in compared:
        assert set(re.findall(r"\d+", text)) == set(re.findall(r"\d+", told[target])), target


def test_settings_on_the_pages_of_operations_exist():
    settings = (CHECKOUT / "conf" / "mutation-quota.toml").read_text()
    pages = [path.read_text() for path in (CHECKOUT / "docs/how-to/operations").glob("*.md")]
    named = re.findall(r"`(?:enforce|topics|storage|quota)\.(?!yaml)([a-z_]+)", " ".join(pages))
    assert named
    for name in named:
        assert re.search(rf"^(# |\[storage\.){name}\b", settings, re.MULTILINE), name


def test_both_views_of_mutations_include_the_effective_ones():
    effective = "WHERE NOT validate_only AND (repeats IS NULL OR number >= repeats.topics)"
    assert (REFERENCE / "tables.md").read_text().count(effective) == 2


@cache
def messages():
    """All texts in the code but docstrings; a value inside a text is a NUL."""
    texts = []
    for package in ("jobs", "quota"):
        for file in (CHECKOUT / package).rglob("*.py"):
            tree = ast.parse(file.read_text())
            docstrings = {node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)}
            for node in set(ast.walk(tree)) - docstrings:
                match node:
                    case ast.JoinedStr(values=values):
                        texts.append("".join(part.value if isinstance(part, ast.Constant) else "\0" for part in values))
                    case ast.Constant(value=str(text)):
                        texts.append(re.sub(r"\{\w+\}|%s", "\0", text))
    # as `quota.kafka.librdkafka.cluster_errors` and `quota.kafka.brokers.cluster_quotas` compose them
    return [*texts, *(f"cannot {text}" for text in texts), *(f"cannot {text} Kafka at \0" for text in texts)]


def is_printed(message):
    pattern = re.compile(".*".join(map(re.escape, message.split("…"))))
    return any(map(pattern.search, messages()))


@pytest.mark.parametrize("message", [message for message, _, _ in MESSAGES])
def test_quoted_messages_occur_in_the_code(message):
    assert is_printed(message)


def test_each_table_of_messages_is_read():
    assert len(MESSAGES) == sum(line.startswith("| `") for line in ERRORS.splitlines()) > 50


ARCHITECTURE = (CHECKOUT / "docs/explanation/architecture.md").read_text()
CONTRIBUTING = (CHECKOUT / "CONTRIBUTING.md").read_text()
FILES = set(re.findall(r"`((?:quota|jobs|schemas|tests|conf)/[\w/.-]+?\.\w+)(?:`|:)", ARCHITECTURE + CONTRIBUTING))
FUNCTIONS = sorted(set(re.findall(r"`((?:quota|jobs|schemas)/[\w/]+\.py):([\w.]+)`", ARCHITECTURE)))
FOLDERS = {path.parent for half in ("quota", "jobs", "schemas") for path in (CHECKOUT / half).rglob("__init__.py")}

_FUNCTIONS = ast.FunctionDef | ast.AsyncFunctionDef


@cache
def defined(path):
    """Return the classes and functions of a file, with the methods of its classes."""
    names = set()
    for node in ast.parse((CHECKOUT / path).read_text()).body:
        if isinstance(node, ast.ClassDef | _FUNCTIONS):
            names.add(node.name)
        if isinstance(node, ast.ClassDef):
            names.update(f"{node.name}.{member.name}" for member in node.body if isinstance(member, _FUNCTIONS))
    return names


@pytest.mark.parametrize("path", sorted(FILES))
def test_files_on_the_pages_exist(path):
    assert (CHECKOUT / path).exists()


@pytest.mark.parametrize(("path", "name"), FUNCTIONS)
def test_functions_on_the_page_exist(path, name):
    assert name in defined(path)


def test_the_page_names_each_package_in_one_row_and_fits_on_a_screen():
    """The two halves themselves have a paragraph."""
    rows = [line.split("|")[1] for line in ARCHITECTURE.splitlines() if line.startswith("| `")]
    named = [name for row in rows for name in re.findall(r"`([\w/]+)/`", row)]
    assert sorted(named) == sorted({str(folder.relative_to(CHECKOUT)) for folder in FOLDERS} - {"quota", "jobs"})
    assert len(ARCHITECTURE.splitlines()) <= 65


TEST_LINK = re.compile(r"\]\(\.\./\.\./(tests/[\w/]+\.py)\)(?:<!-- ([\w ]+) -->)?")
"""A link to a file of tests, and the names of the tests, in a comment that readers do not see."""


def test_tests_named_by_the_threat_model_and_the_guarantees_exist():
    named = [(file, name) for file, names in TEST_LINK.findall(SECURITY + GUARANTEES) for name in names.split()]
    assert len(named) > 80
    missing = [f"{file}::{name}" for file, name in named if name not in defined(file)]
    assert missing == []


def test_each_threat_has_a_test_and_each_link_to_tests_names_some():
    tables = [part.split("\n## ")[0] for part in SECURITY.split("## Threats")[1:]]
    threats = [line for table in tables for line in table.splitlines() if re.match(r"\| (?!threat \||---)", line)]
    assert len(threats) > 40
    assert [row for row in threats if not TEST_LINK.search(row)] == []
    assert [file for file, names in TEST_LINK.findall(SECURITY + GUARANTEES) if not names] == []
    labelled = re.findall(r"\[`(test_\w+\.py)`\]\([^)]*?(\w+\.py)\)", SECURITY + GUARANTEES)
    assert [pair for pair in labelled if len(set(pair)) > 1] == []


def test_each_guarantee_has_a_test():
    table = GUARANTEES.split("\n## What is guaranteed\n")[1].split("\n## ")[0]
    guarantees = re.findall(r"^\| (?!guarantee \||---).*$", table, re.MULTILINE)
    assert len(guarantees) == 11
    assert [row for row in guarantees if not TEST_LINK.search(row) and "(security.md)" not in row] == []
