"""The shipped dashboard and alerts, a reader of PromQL for their queries, and the samples of metric families."""

import json
import re
from itertools import pairwise

import yaml
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from tests.support.checkout import CHECKOUT

RULES_FILE = CHECKOUT / "conf/prometheus/alerts.yaml"
RULES = [rule for group in yaml.safe_load(RULES_FILE.read_text())["groups"] for rule in group["rules"]]
DASHBOARD = json.loads((CHECKOUT / "conf/grafana/dashboard.json").read_text())
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]

AGGREGATIONS = {"sum", "max", "min", "avg", "count", "topk", "bottomk"}
FUNCTIONS = {"rate", "increase", "changes", "max_over_time", "histogram_quantile", "time", "absent", "label_values"}
WORDS = {"and", "or", "unless", "bool"}
GROUPINGS = {"by", "without", "on", "ignoring", "group_left", "group_right"}

_TOKEN = re.compile(
    r"""(?P<space>\s+)
    |(?P<string>"(?:[^"\\]|\\.)*")
    |(?P<range>\[(?:\d+[smhd]|\$__rate_interval)\])
    |(?P<number>\d+(?:\.\d+)?)
    |(?P<name>[a-zA-Z_:][a-zA-Z0-9_:]*)
    |(?P<matcher>=~|!~|!=(?=")|=(?="))
    |(?P<operator>[-+*/%^]|[<>]=?|==|!=)
    |(?P<mark>[(){},])""",
    re.VERBOSE,
)


def metrics_and_labels(query):
    """Return the metrics and the labels that a PromQL query names. This is not a complete parser."""
    tokens = [(kind, text) for kind, text in _tokens(query) if kind != "space"]
    metrics, labels, open_marks = set(), set(), []
    grouping = False
    for (kind, text), (_, following) in pairwise([*tokens, ("end", "")]):
        if text in {"(", "{"}:
            open_marks.append("labels" if text == "{" or grouping else "(")
        elif text in {")", "}"} and not open_marks:
            raise ValueError(f"{text} too many in {query}")
        elif text in {")", "}"}:
            open_marks.pop()
        elif kind == "name" and open_marks[-1:] == ["labels"]:
            labels.add(text)
        elif kind == "name" and not _is_word(text, following):
            metrics.add(text)
        grouping = text in GROUPINGS
    if open_marks:
        raise ValueError(f"brackets that are not closed in {query}")
    return metrics, labels


def _is_word(name, following):
    """Return whether a name is a keyword of PromQL, according to the token after it."""
    called = following == "(" or (name in AGGREGATIONS and following in GROUPINGS)
    return name in WORDS | GROUPINGS or (called and name in AGGREGATIONS | FUNCTIONS)


def _tokens(query):
    position = 0
    while position < len(query):
        match = _TOKEN.match(query, position)
        if match is None:
            raise ValueError(f"{query[position:]} is no PromQL")
        yield match.lastgroup, match[0]
        position = match.end()


class _Collected:
    def __init__(self, families):
        self._families = families

    def collect(self):
        return self._families


def samples(families):
    """Return the samples of metric families by name and labels, read back from their text format."""
    registry = CollectorRegistry()
    registry.register(_Collected(families))
    text = generate_latest(registry).decode()
    return {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
