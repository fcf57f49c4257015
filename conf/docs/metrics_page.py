"""Generates the reference of the metrics from their definitions."""

from collections.abc import Iterator

from conf.docs.markdown import code, table
from jobs.metrics import definitions
from jobs.metrics.definitions import Metric

_HEAD = ("metric", "kind", "unit", "labels", "meaning")


def metric_table() -> Iterator[str]:
    """Yield a table of all metrics, in the order of their definitions."""
    metrics = [each for each in vars(definitions).values() if isinstance(each, Metric)]
    rows = (
        (code(each.name), each.kind, each.unit, ", ".join(map(code, each.labels)), each.meaning) for each in metrics
    )
    return table(_HEAD, rows)
