"""The page on metrics has every metric and every alert, and no others."""

import re

import yaml

from jobs.metrics.families import METRICS
from quota.settings import load_settings
from tests.support.checkout import CHECKOUT

PAGE = (CHECKOUT / "docs/reference/monitoring/metrics.md").read_text()


def rows(section):
    """The rows of a section's table: their cells, without the marks of code."""
    (text,) = re.findall(rf"^## {section}\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    lines = re.findall(r"^\| (`.*) \|$", text, re.MULTILINE)
    return [[cell.strip() for cell in line.split(" |")] for line in lines]


def test_each_metric_is_listed_as_in_the_code():
    listed = [[cell.strip(" |") for cell in row] for row in rows("All metrics")]
    expected = [
        [f"`{each.name}`", each.kind, each.unit, ", ".join(f"`{label}`" for label in each.labels), each.meaning]
        for each in METRICS
    ]
    assert listed == expected


def test_it_says_what_to_do_about_each_alert():
    alerts = yaml.safe_load((CHECKOUT / "conf/prometheus/alerts.yaml").read_text())
    names = [f"`{rule['alert']}`" for group in alerts["groups"] for rule in group["rules"]]
    assert [row[0] for row in rows("Alerts")] == names


def test_the_settings_that_it_names_have_these_defaults():
    (most,) = re.findall(r"`metrics.max_tenants` \((\d+)\)", PAGE)
    metrics = load_settings(environment={}).metrics
    assert (metrics.port, metrics.address, metrics.max_tenants) == (0, "127.0.0.1", int(most))
