"""The dashboard and the alerts ask for metrics and labels that there are."""

import re

import pytest

from tests.support.checkout import CHECKOUT
from tests.support.monitoring import DASHBOARD, METRICS, PANELS, RULES, metrics_and_labels

LABELS = {metric.name: set(metric.labels) for metric in METRICS}
LABELS |= {f"{each.name}_bucket": {*each.labels, "le"} for each in METRICS if each.kind == "histogram"}
OF_PROMETHEUS = {"job", "instance"}

QUERIES = [
    *(target["expr"] for panel in PANELS for target in panel["targets"]),
    *(each["expr"] for each in DASHBOARD["annotations"]["list"]),
    *(rule["expr"] for rule in RULES),
]


@pytest.mark.parametrize("query", QUERIES)
def test_each_query_asks_for_metrics_and_labels_that_there_are(query):
    metrics, labels = metrics_and_labels(query)
    assert metrics
    assert metrics <= LABELS.keys()
    assert labels <= OF_PROMETHEUS.union(*(LABELS[name] for name in metrics))


def test_what_is_chosen_from_in_the_dashboard_is_there():
    choices = [each["query"]["query"] for each in DASHBOARD["templating"]["list"] if each["type"] == "query"]
    assert len(choices) == 2
    for choice in choices:
        metric, label = re.fullmatch(r"label_values\((\w+), (\w+)\)", choice).groups()
        assert label in LABELS[metric] | OF_PROMETHEUS


def test_each_legend_names_labels_that_its_query_has():
    for panel in PANELS:
        for target in panel["targets"]:
            metrics, _ = metrics_and_labels(target["expr"])
            named = set(re.findall(r"{{(\w+)}}", target["legendFormat"]))
            assert named <= set().union(*(LABELS[name] for name in metrics)), target


def test_each_alert_tells_of_labels_that_it_keeps():
    for rule in RULES:
        metrics, _ = metrics_and_labels(rule["expr"])
        named = set(re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"]))
        kept = OF_PROMETHEUS.union(*(LABELS[name] for name in metrics))
        aggregated = re.findall(r"(?:sum|max|count) by \(([^)]*)\)", rule["expr"])
        if aggregated:
            kept = set(re.findall(r"\w+", aggregated[0]))
        assert named <= kept, rule["alert"]


def test_every_metric_is_on_the_dashboard_or_in_an_alert():
    """Which nobody looks at need not be served."""
    asked = {name.removesuffix("_bucket") for query in QUERIES for name in metrics_and_labels(query)[0]}
    assert asked == {metric.name for metric in METRICS}


def test_panels_stand_beside_and_not_over_each_other():
    places = [
        (x, y)
        for panel in DASHBOARD["panels"]
        for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
    ]
    assert len(places) == len(set(places))
    assert max(x for x, _ in places) < 24
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])


@pytest.mark.parametrize(
    ("query", "metrics", "labels"),
    [
        ('sum by (a) (rate(m_total{b="c{d}"}[5m])) > ignoring(e) n', {"m_total", "n"}, {"a", "b", "e"}),
        ("time() - m > 300 and n > 0", {"m", "n"}, set()),
        ('topk(10, m{u=~"$user"} / on (x) group_left (y) n)', {"m", "n"}, {"u", "x", "y"}),
    ],
)
def test_what_a_query_asks_for_is_found(query, metrics, labels):
    assert metrics_and_labels(query) == (metrics, labels)


@pytest.mark.parametrize("query", ["sum(m", "m)", "m[5x]", "m ? n"])
def test_what_is_no_query_is_told(query):
    with pytest.raises(ValueError, match=r"PromQL|brackets|too many"):
        metrics_and_labels(query)


def test_the_how_to_names_each_severity_of_the_alerts():
    page = (CHECKOUT / "docs/how-to/operations/monitoring.md").read_text()
    (named,) = re.findall(r"label `severity` \((.*?)\)", page)
    assert set(re.findall(r"`(\w+)`", named)) == {rule["labels"]["severity"] for rule in RULES}
