"""The shipped dashboard and alerts, and the samples of metric families."""

import json
import re
from types import SimpleNamespace
from urllib.request import urlopen

import yaml
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from tests.support.checkout import CHECKOUT

RULES_FILE = CHECKOUT / "conf/prometheus/alerts.yaml"
RULES = [rule for group in yaml.safe_load(RULES_FILE.read_text())["groups"] for rule in group["rules"]]
DASHBOARD = json.loads((CHECKOUT / "conf/grafana/dashboard.json").read_text())
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]


def metrics_of(query):
    """Return the metrics that a PromQL query names; Prometheus itself checks that it is valid (`tests/prometheus`)."""
    return set(re.findall(r"\b(?:mutation_quota|kafka_server)_\w+", query))


def samples(families):
    """Return the samples of metric families by name and labels, read back from their text format."""
    return _parsed(generate_latest(SimpleNamespace(collect=lambda: families)))


def served_samples(port):
    """Return the samples that a process of this machine serves at a port, by name and labels."""
    with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as page:
        return _parsed(page.read())


def _parsed(text):
    return {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text.decode())
        for sample in family.samples
    }
