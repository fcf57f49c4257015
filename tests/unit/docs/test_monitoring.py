"""The dashboard and the alerts use existing metrics and labels."""

import re

import pytest

from jobs.metrics.families import METRICS
from tests.support.monitoring import DASHBOARD, PANELS, RULES, metrics_and_labels

LABELS = {metric.name: set(metric.labels) for metric in METRICS}
LABELS |= {f"{each.name}_bucket": {*each.labels, "le"} for each in METRICS if each.kind == "histogram"}
OF_PROMETHEUS = {"job", "instance"}

QUERIES = [
    *(target["expr"] for panel in PANELS for target in panel["targets"]),
    *(each["expr"] for each in DASHBOARD["annotations"]["list"]),
    *(rule["expr"] for rule in RULES),
]


@pytest.mark.parametrize("query", QUERIES)
def test_each_query_uses_existing_metrics_and_labels(query):
    metrics, labels = metrics_and_labels(query)
    assert metrics
    assert metrics <= LABELS.keys()
    assert labels <= OF_PROMETHEUS.union(*(LABELS[name] for name in metrics))


def test_choices_of_the_dashboard_exist():
    choices = [each["query"]["query"] for each in DASHBOARD["templating"]["list"] if each["type"] == "query"]
    assert len(choices) == 2
    for choice in choices:
        metric, label = re.fullmatch(r"label_values\((\w+), (\w+)\)", choice).groups()
        assert label in LABELS[metric] | OF_PROMETHEUS


def test_each_legend_uses_labels_of_its_query():
    for panel in PANELS:
        for target in panel["targets"]:
            metrics, _ = metrics_and_labels(target["expr"])
            named = set(re.findall(r"{{(\w+)}}", target["legendFormat"]))
            assert named <= set().union(*(LABELS[name] for name in metrics)), target


def test_each_alert_names_labels_of_its_result():
    for rule in RULES:
        metrics, _ = metrics_and_labels(rule["expr"])
        named = set(re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"]))
        kept = OF_PROMETHEUS.union(*(LABELS[name] for name in metrics))
        aggregated = re.findall(r"(?:sum|max|count) by \(([^)]*)\)", rule["expr"])
        if aggregated:
            kept = set(re.findall(r"\w+", aggregated[0]))
        assert named <= kept, rule["alert"]


def test_every_metric_is_on_the_dashboard_or_in_an_alert():
    """An unused metric need not be served."""
    used = {name.removesuffix("_bucket") for query in QUERIES for name in metrics_and_labels(query)[0]}
    assert used == {metric.name for metric in METRICS}


@pytest.mark.parametrize(
    ("query", "metrics", "labels"),
    [
        ('sum by (a) (rate(m_total{b="c{d}"}[5m])) > ignoring(e) n', {"m_total", "n"}, {"a", "b", "e"}),
        ("time() - m > 300 and n > 0", {"m", "n"}, set()),
        ('topk(10, m{u=~"$user"} / on (x) group_left (y) n)', {"m", "n"}, {"u", "x", "y"}),
    ],
)
def test_the_metrics_and_labels_of_a_query_are_found(query, metrics, labels):
    assert metrics_and_labels(query) == (metrics, labels)


@pytest.mark.parametrize("query", ["sum(m", "m)", "m[5x]", "m ? n"])
def test_an_invalid_query_is_reported(query):
    with pytest.raises(ValueError, match=r"PromQL|brackets|too many"):
        metrics_and_labels(query)
