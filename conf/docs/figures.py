"""Figures on pages that are not evidence themselves: each is followed by a comment that says where it is from.

    150<!-- performance: sections.latency.p50 at 200 requests/s.median -->

names a value in docs/evidence/performance.json, as a template of evidence does (`tests/evidence/report.py`). A figure
that is not one word is in backticks.
"""

import json
import re
from pathlib import Path

from tests.evidence.report import render

DOCS = Path(__file__).resolve().parents[2] / "docs"
FIGURE = re.compile(r"(?:[\w.,]+|`[^`\n]*`)(<!-- ([\w/-]+): ([^>]+) -->)")


def with_figures(page: str) -> str:
    """Return a page with the figures that the evidence has today.

    Raises:
        FileNotFoundError: there is no such evidence.
        TemplateError: it has no such value.
    """
    return FIGURE.sub(_current, page)


def _current(figure: re.Match[str]) -> str:
    comment, evidence, path = figure.groups()
    results = json.loads((DOCS / "evidence" / f"{evidence}.json").read_text(encoding="utf-8"))
    quote = "`" if figure[0].startswith("`") else ""
    return f"{quote}{render(f'{{{{{path}}}}}', results)}{quote}{comment}"
