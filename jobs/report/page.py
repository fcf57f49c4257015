"""Makes a report from the tables: one HTML page without external resources."""

import base64
import hashlib
import html
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path

import pyarrow.dataset as ds
from msgspec.structs import replace

from jobs.audit.tables.reader import open_table, read_errors
from jobs.audit.tables.specs import TABLES
from jobs.report.aggregation import ReportScope, compute_figures
from jobs.report.figures import Candidates, Figures, read_candidates
from jobs.report.uplot import VERSION, Library, load_library
from quota import __version__
from quota.kafka.timing import now_ms
from quota.records import codec
from quota.settings import Settings
from quota.text import format_time, plural

_PLACE = re.compile(r"\{\{(\w+)\}\}")

_CHARTS = {
    "load": "Mutations requested",
    "throttled": "Throttled tenants",
    "tokens": "Tokens of the busiest buckets",
    "latency": "From request to decision",
}

_CANDIDATES = """<section aria-labelledby="candidates-head">
<h2 id="candidates-head">What if</h2> <p class="quiet">The same requests with different quotas, over the whole period of
the comparison, regardless of the selection above. A sender is a user with a client-id; senders may share a bucket.
{left_out}</p> <div id="candidates-table"></div> </section>"""

_UNITS = (("day", 86_400_000), ("hour", 3_600_000), ("minute", 60_000), ("second", 1000))


@dataclass(frozen=True, slots=True)
class Origin:
    """What a report is of: a picture of it that is passed on must not be taken for something else."""

    text: str
    """A sentence about the tables or the file, and about the quotas that were tried."""
    what_if: bool = False
    """Whether its decisions were not made, but are what other quotas would have decided."""
    made_at: int = field(default_factory=now_ms)
    """When it was made [epoch ms]."""

    @property
    def title(self) -> str:
        """The title of the page, without the user."""
        return "What if: topic mutations" if self.what_if else "Topic mutations"


def make_report(
    settings: Settings,
    scope: ReportScope,
    comparison: Path | None = None,
    given: tuple[Origin, Mapping[str, ds.Dataset]] | None = None,
) -> tuple[str, Figures]:
    """Return the page, and its figures; `comparison` is a file of what-if comparisons to show.

    The tables are those of the audit, unless others are given, with their origin.
    """
    candidates = None if comparison is None else read_candidates(comparison)
    library = load_library()
    if given is None:
        cluster = settings.kafka.bootstrap_servers
        origin = Origin(f"Of the audit's tables in {settings.storage.root}, for Kafka at {cluster}.")
        tables: Mapping[str, ds.Dataset] = {table.name: open_table(settings, table).dataset() for table in TABLES}
    else:
        origin, tables = given
    with read_errors(settings):
        figures = replace(compute_figures(tables, scope), candidates=candidates)
    return render_page(figures, library, origin), figures


def render_page(figures: Figures, library: Library, origin: Origin) -> str:
    """Render the page as HTML.

    Names cannot inject markup or scripts: figures are JSON without characters that are special in HTML, scripts insert
    them only as text, and the page's Content-Security-Policy allows neither other scripts nor external resources.
    """
    own = "\n".join(_read_asset(name) for name in ("charts.js", "tables.js", "page.js"))
    script = f"(() => {{\n'use strict';\n{own}}})();"
    style = f"{library.style}\n{_read_asset('page.css')}"
    whose = f" of user {figures.user}" if figures.user else ""
    period = figures.period
    width = _format_width(period.width)
    left_out, made_at = figures.changes_left_out, _format_minute(origin.made_at)
    parts = {
        "policy": _policy([library.script, script], style),
        "title": html.escape(f"{origin.title}{whose}"),
        "heading": f"{origin.title}{_isolate(whose)}",
        "about": f"{_format_minute(period.start)} to {_format_minute(period.end)} UTC, in intervals of {width}.",
        "origin": html.escape(f"{origin.text} Made {made_at} UTC by mutation-quota {__version__}."),
        "style": style,
        "charts": f'<div class="charts">{"".join(_charts(origin))}</div>',
        "others": html.escape(_describe_others(figures)),
        "left_out": f"Not shown: {plural(left_out, 'earlier change')}." if left_out else "",
        "interval": width,
        "library_version": VERSION,
        "licence": html.escape(library.licence),
        "figures": encode_for_html(figures),
        "library": library.script,
        "script": script,
        "candidates": _candidates(figures.candidates),
    }
    return _PLACE.sub(lambda place: parts[place[1]], _read_asset("page.html"))


def encode_for_html(value: object) -> str:
    """Encode a value as JSON without the characters that could end its HTML element or start another element."""
    text = codec.encode(value).decode()
    return re.sub("[<>&\u2028\u2029]", lambda match: f"\\u{ord(match[0]):04x}", text)


def _charts(origin: Origin) -> Iterator[str]:
    for name, title in _CHARTS.items():
        if origin.what_if and name == "latency":  # of decisions that were not made
            continue
        yield (
            f'<section id="{name}" aria-labelledby="{name}-head"><h2 id="{name}-head">{title}</h2>'
            f'<p class="text" id="{name}-text"></p><p class="unit"></p>'
            f'<div role="img" aria-labelledby="{name}-head {name}-text"><div class="chart"></div></div>'
            '<details><summary>Show as a table</summary><div class="values"></div></details></section>'
        )


def _candidates(candidates: Candidates | None) -> str:
    if candidates is None:
        return ""
    left_out = candidates.left_out
    return _CANDIDATES.format(left_out=f"The busiest senders are shown; {left_out} are not shown." if left_out else "")


def _policy(scripts: list[str], style: str) -> str:
    """Return the Content-Security-Policy, which allows only the scripts and the style of the page itself."""
    hashes = " ".join(_hash(script) for script in scripts)
    return f"default-src 'none'; script-src {hashes}; style-src {_hash(style)}; base-uri 'none'; form-action 'none'"


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _isolate(text: str) -> str:
    return f" <bdi>{html.escape(text.strip())}</bdi>" if text else ""


def _describe_others(figures: Figures) -> str:
    if figures.others is None:
        return ""
    return f"The {len(figures.tenants)} busiest are listed; the rest are combined as {figures.others.name}."


def _format_minute(ms: int) -> str:
    return format_time(ms)[:16].replace("T", " ")


def _format_width(width: int) -> str:
    """Format a length [ms] in the largest unit of which it is a multiple."""
    unit, size = next((unit, size) for unit, size in _UNITS if width % size == 0)
    count = width // size
    return f"{count} {unit}{'s' if count > 1 else ''}"


def _read_asset(name: str) -> str:
    return (files("jobs.report") / "assets" / name).read_text(encoding="utf-8")
