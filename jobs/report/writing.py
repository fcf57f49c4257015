"""Makes a report from the tables."""

from collections.abc import Mapping
from pathlib import Path

import pyarrow.dataset as ds
from msgspec.structs import replace

from jobs.audit.tables.reader import open_table, read_errors
from jobs.audit.tables.specs import TABLES
from jobs.report.aggregation import ReportScope, compute_figures
from jobs.report.candidates import read_candidates
from jobs.report.figures import Figures
from jobs.report.library import load_library
from jobs.report.page import render_page
from quota.settings import Settings


def make_report(
    settings: Settings,
    scope: ReportScope,
    comparison: Path | None = None,
    tables: Mapping[str, ds.Dataset] | None = None,
) -> tuple[str, Figures]:
    """Return the page, and its figures; `comparison` is a file of what-if comparisons to show."""
    candidates = None if comparison is None else read_candidates(comparison)
    library = load_library()
    if tables is None:
        tables = {table.name: open_table(settings, table).dataset() for table in TABLES}
    with read_errors(settings):
        figures = replace(compute_figures(tables, scope), candidates=candidates)
    return render_page(figures, library), figures
