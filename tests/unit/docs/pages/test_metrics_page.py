"""The page on metrics has every alert, and the defaults of its settings."""

import re

import yaml

from quota.settings import load_settings
from tests.support.checkout import CHECKOUT

PAGE = (CHECKOUT / "docs/reference/monitoring/metrics.md").read_text()


def rows(section):
    """The rows of a section's table: their cells, without the marks of code."""
    (text,) = re.findall(rf"^## {section}\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    lines = re.findall(r"^\| (`.*) \|$", text, re.MULTILINE)
    return [[cell.strip() for cell in line.split(" |")] for line in lines]


def test_it_says_what_to_do_about_each_alert():
    alerts = yaml.safe_load((CHECKOUT / "conf/prometheus/alerts.yaml").read_text())
    names = [f"`{rule['alert']}`" for group in alerts["groups"] for rule in group["rules"]]
    assert [row[0] for row in rows("Alerts")] == names


def test_the_settings_that_it_names_have_these_defaults():
    (most,) = re.findall(r"`metrics.max_tenants` \((\d+)\)", PAGE)
    metrics = load_settings(environment={}).metrics
    assert (metrics.port, metrics.address, metrics.max_tenants) == (0, "127.0.0.1", int(most))
