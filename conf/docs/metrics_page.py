"""Generates the reference of the metrics from their definitions."""

from collections.abc import Iterator

from conf.docs.markdown import code, table
from jobs.metrics.families import METRICS

_HEAD = ("metric", "kind", "unit", "labels", "meaning")


def metric_table() -> Iterator[str]:
    """Yield a table of all metrics, in the order of their definitions."""
    rows = (
        (code(metric.name), metric.kind, metric.unit, ", ".join(map(code, metric.labels)), metric.meaning)
        for metric in METRICS
    )
    return table(_HEAD, rows)
