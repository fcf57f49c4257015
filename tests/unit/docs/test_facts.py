"""Numbers and versions on hand-written pages are those of the code."""

import re
import tomllib

import pytest

from jobs.spark.properties import spark_defaults
from quota.kafka.topics.specs import ENVELOPE, GROWTH
from tests.support.checkout import CHECKOUT

DOCS = CHECKOUT / "docs"
COMPATIBILITY = (DOCS / "reference/compatibility.md").read_text()
PINNED = dict(line.split("==") for line in (CHECKOUT / "conf/constraints.txt").read_text().splitlines() if "==" in line)
LOGIN = {"security_protocol": "SASL_SSL", "sasl_mechanism": "PLAIN", "sasl_username": "u", "sasl_password": "p"}
JARS = dict(re.findall(r"<(\w+)\.version>([\d.]+)<", (CHECKOUT / "conf/jvm/pom.xml").read_text()))


def words_of(page):
    """A page of docs/ on one line."""
    return " ".join((DOCS / page).read_text().split())


def version_of(row):
    """Return the version that the compatibility page calls tested."""
    (cell,) = re.findall(rf"^\| {re.escape(row)} \| ([^|]+) \|", COMPATIBILITY, re.MULTILINE)
    return cell


@pytest.mark.parametrize(
    ("row", "versions"),
    [
        ("Spark", [PINNED["pyspark"], JARS["spark"]]),
        ("Delta Lake", [PINNED["delta_spark"], JARS["delta"], PINNED["deltalake"]]),
        ("confluent-kafka (librdkafka)", [PINNED["confluent-kafka"]]),
        ("requests, decisions and quotas (`kafka.bootstrap_servers`)", [JARS["kafka"]]),
        ("Java AdminClient, `kafka-topics.sh`, Streams, Connect", [JARS["kafka"]]),
        ("kafka-python", [PINNED["kafka-python"]]),
    ],
)
def test_the_versions_that_are_called_tested_are_the_pinned_ones(row, versions):
    assert [version for version in versions if version not in version_of(row)] == []


def test_the_request_logs_that_are_called_tested_are_in_the_tests():
    tested = re.findall(r"\d+\.\d+\.\d+", version_of("[request logs](../how-to/observe.md)"))
    folders = {folder.name.partition("-")[0] for folder in (CHECKOUT / "tests/data/request_logs").iterdir()}
    assert tested
    assert set(tested) <= folders


def test_python_is_needed_as_the_package_says():
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]
    assert project["requires-python"] == ">=3.11"
    assert "| 3.11 or newer |" in COMPATIBILITY


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "docs/tutorial/first-refusal.md", "Makefile"])
def test_the_installation_has_the_same_size_and_duration_everywhere(name):
    text = " ".join((CHECKOUT / name).read_text().split())
    assert set(re.findall(r"\binstall[^.]*?([\d.]+ GB)", text)) == {"1.8 GB"}
    assert "one to three minutes" in text


def test_the_decision_on_sizes_has_those_of_the_code():
    page = words_of("decisions/programs/0006-no-record-may-stop-the-query.md")
    assert (GROWTH, ENVELOPE) == (6, 8 * 1024)
    assert "at most six times its record and 8 KiB" in page


def test_the_page_on_topics_has_the_sizes_and_times_of_the_code():
    page = words_of("reference/topics.md")
    assert "can be six times as large as the largest request (`limits.max_request_bytes`) plus 8 KiB" in page
    week = str(7 * 24 * 3600 * 1000)
    assert f"`min.compaction.lag.ms={week}`" in page
    assert f"`retention.ms={week}`" in page


def test_entries_of_tables_in_the_shipped_settings_are_called_examples():
    """They are the only non-default entries: spark.ui.enabled is off in spark-defaults.conf."""
    file = (CHECKOUT / "conf/mutation-quota.toml").read_text()
    examples = re.findall(r'^# "([^"]+)" = "([^"]*)"', file, re.MULTILINE)
    assert ("spark.ui.enabled", "true") in examples
    assert spark_defaults()["spark.ui.enabled"] == "false"
    assert "entries in quotes are examples" in file.partition("\n[kafka]")[0]


def test_the_readmes_figures_are_those_of_the_experiment():
    """They are in its second table, from a create until the topic was usable, in ms: median and maximum."""
    page = (DOCS / "evidence/experiment/experiment.md").read_text().partition("until its topic was usable")[2]
    row = r"^\| creation \| {} \| {} \| +[\d,]+ \| +([\d,]+) \| +[\d,]+ \| +([\d,]+) \|"

    def seconds(tenant, storm):
        found = re.search(row.format(tenant, storm), page, re.MULTILINE)
        return [int(each.replace(",", "")) / 1000 for each in found.groups()]

    median, largest = seconds("decided", "with a quota")
    median_without, largest_without = seconds("decided", "without a quota")
    assert (
        f"usable after at most {largest:.1f} s instead of {largest_without:.0f} s "
        f"(median {median:.1f} s instead of {median_without:.0f} s), including the wait for its own decision"
    ) in " ".join((CHECKOUT / "README.md").read_text().split())


def test_the_time_of_a_restart_is_that_of_the_chaos_page():
    page = (DOCS / "evidence/chaos.md").read_text()
    on_disk, on_s3 = re.findall(
        r"^\| start until the first committed batch, median, s \| ([\d.]+) \|", page, re.MULTILINE
    )
    assert f"a median of [{on_disk} s](../evidence/chaos.md) from a start to the first batch" in words_of(
        "explanation/guarantees.md"
    )
    assert words_of("evidence/index.md").count(f"{on_disk} s from a start to the first batch, {on_s3} s on S3") == 1
