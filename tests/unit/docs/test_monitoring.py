"""The dashboard and the alerts use existing metrics and labels."""

import re

import pytest

from jobs.metrics.families import METRICS
from tests.support.monitoring import DASHBOARD, PANELS, RULES, metrics_of

LABELS = {metric.name: set(metric.labels) for metric in METRICS}
LABELS |= {f"{metric.name}_bucket": {*metric.labels, "le"} for metric in METRICS if metric.kind == "histogram"}
OF_PROMETHEUS = {"job", "instance", "namespace", "cluster"}

QUERIES = [
    *(target["expr"] for panel in PANELS for target in panel["targets"]),
    *(annotation["expr"] for annotation in DASHBOARD["annotations"]["list"]),
    *(rule["expr"] for rule in RULES),
]


@pytest.mark.parametrize("query", QUERIES)
def test_each_query_uses_existing_metrics_and_their_labels(query):
    metrics = metrics_of(query)
    assert metrics
    assert metrics <= LABELS.keys()
    matched = re.findall(r"[{,]\s*(\w+)\s*(?:=~|!~|!=|=)", query)
    grouped = re.findall(r"\w+", " ".join(re.findall(r"(?:by|without|on|ignoring|group_left)\s*\(([^)]*)\)", query)))
    assert {*matched, *grouped} <= OF_PROMETHEUS.union(*(LABELS[name] for name in metrics))


def test_each_legend_uses_labels_of_its_query():
    all_named = set()
    for panel in PANELS:
        for target in panel["targets"]:
            metrics = metrics_of(target["expr"])
            named = set(re.findall(r"{{(\w+)}}", target["legendFormat"]))
            assert named <= set().union(*(LABELS[name] for name in metrics)), target
            all_named |= named
    assert {"outcome", "query", "user"} <= all_named


def test_each_alert_names_labels_of_its_result():
    all_named = set()
    for rule in RULES:
        metrics = metrics_of(rule["expr"])
        named = set(re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"]))
        kept = OF_PROMETHEUS.union(*(LABELS[name] for name in metrics))
        aggregated = re.findall(r"(?:sum|max|count) by \(([^)]*)\)", rule["expr"])
        if aggregated:
            kept = set(re.findall(r"\w+", aggregated[0]))
        assert named <= kept, rule["alert"]
        all_named |= named
    assert {"query", "table"} <= all_named


def test_every_metric_is_on_the_dashboard_or_in_an_alert():
    """An unused metric need not be served."""
    used = {name.removesuffix("_bucket") for query in QUERIES for name in metrics_of(query)}
    assert used == {metric.name for metric in METRICS}
