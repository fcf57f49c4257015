"""Generates the figures on pages from the benchmark's record: the reference figures, and those for sizing."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from conf.docs.markdown import table

_FIGURES = Path(__file__).resolve().parents[2] / "docs/evidence/performance.json"

_SHOWN = (
    ("latency", "p50 at 200 requests/s", "latency at 200 requests/s, median"),
    ("latency", "p99 at 200 requests/s", "the same, 99th percentile"),
    ("throughput", "enforce, 1,000 active keys", "requests decided, of a backlog of 1,000 tenants"),
    ("audit", "decisions into Delta, of a backlog", "decisions stored, of a backlog"),
    ("start", "start to the first decisions", "start until the first decisions"),
)
"""The section and name of a figure in the record, and its name on the page."""

_LIMITS = {
    "pass-through": "a Kafka-to-Kafka query without state",
    "empty function": "Spark's stateful stage with an empty function",
    "enforcing it": "deciding as many",
}
"""The names of limits on the page; a figure with a different limit is shown alone."""


_SIZING = (
    ("state", "a batch of 1,000 active keys, 100,000 buckets", "a batch of 1,000 requests, each of another tenant"),
    ("throughput", "enforce, 1,000 active keys", "requests decided, of a backlog of 1,000 tenants"),
    ("throughput", "enforce, 100,000 active keys", "requests decided, of a backlog of 100,000 tenants"),
    ("audit", "decisions into Delta, of a backlog", "decisions stored by the audit, of a backlog"),
    ("latency", "p50 at 200 requests/s", "latency at 200 requests/s, median, the audit on the same cores"),
    ("latency", "p99 at 200 requests/s", "the same, 99th percentile"),
    ("state", "peak memory of the JVM", "peak memory of the JVM, with `spark.driver_memory=1g`"),
    ("state", "peak memory of a Python worker", "peak memory of a Python worker"),
)
"""The section and name of a figure in the record, and what the page on sizing calls it."""


def sizing_table() -> Iterator[str]:
    """Yield a table of the figures by which jobs are sized."""
    figures = _figures()
    measured = ((shown, figures[section, name]) for section, name, shown in _SIZING)
    return table(("what", "measured"), ((shown, _number(each["median"], each["unit"])) for shown, each in measured))


def figure_table() -> Iterator[str]:
    """Yield a table of the reference figures, each next to its limit."""
    figures = _figures()

    def rows() -> Iterator[tuple[str, ...]]:
        for section, name, shown in _SHOWN:
            figure = figures[section, name]
            limit: tuple[str, ...] = ("", "", "")
            if figure["limit"] in _LIMITS:
                median = _number(figure["limit_median"], figure["unit"])
                limit = (_LIMITS[figure["limit"]], median, f"{figure['ratio']:.2g}")
            yield shown, _number(figure["median"], figure["unit"]), *limit

    return table(("what", "median", "next to", "its median", "ratio"), rows())


def _figures() -> dict[tuple[str, str], Any]:
    sections = json.loads(_FIGURES.read_text(encoding="utf-8"))["sections"]
    return {(section, figure["what"]): figure for section, figures in sections.items() for figure in figures}


def _number(value: float, unit: str) -> str:
    number = f"{value:,.0f}" if value >= 100 else f"{value:.3g}"  # noqa: PLR2004 three digits
    return f"{number} per second" if unit.endswith("/s") else f"{number} {unit}"
