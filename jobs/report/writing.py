"""A report from the tables into its file."""

from pathlib import Path

from msgspec.structs import replace

from jobs.audit.reader import open_table, reading
from jobs.audit.tables import TABLES
from jobs.report.aggregation import ReportScope, figures_of
from jobs.report.candidates import read_candidates
from jobs.report.figures import Figures
from jobs.report.library import library
from jobs.report.page import page_of
from jobs.storage.whole_file import write_whole
from quota.errors import BadInput
from quota.settings.model import Settings
from quota.settings.storage import tables_path


def write_report(settings: Settings, wanted: ReportScope, out: Path, comparison: Path | None = None) -> Figures:
    """Write the page, or nothing; what it shows is returned.

    Raises:
        BadInput: there is nothing to be shown, or the file cannot be written.
        MutationQuotaError: the tables cannot be read.
    """
    if not out.parent.is_dir() or out.is_dir():
        raise BadInput(f"--out {out}: not a file in a folder that is there")
    candidates = None if comparison is None else read_candidates(comparison)
    drawing = library()
    tables = {table.name: open_table(settings, table) for table in TABLES}
    with reading(tables_path(settings)):
        figures = replace(figures_of(tables, wanted), candidates=candidates)
    page = page_of(figures, drawing)
    try:
        write_whole(out, page)
    except OSError as error:
        raise BadInput(f"--out {out}: {error.strerror}") from None
    return figures
