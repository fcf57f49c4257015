"""The files of the page."""

import pytest

from jobs.dashboard import page
from quota.errors import MutationQuotaError


def test_a_modified_library_is_not_part_of_a_page(monkeypatch):
    path = "youplot/vendor/uplot.iife.min.js"
    monkeypatch.setitem(page._UPLOT, path, "0" * 64)  # noqa: SLF001
    with pytest.raises(
        MutationQuotaError, match=r"uplot.iife.min.js is not uPlot 1.6.31 as it was published; reinstall"
    ):
        page.load_uplot()
    monkeypatch.setattr(page, "_PACKAGE", "no-such")
    with pytest.raises(MutationQuotaError, match="which draws the charts, is not installed; run make setup"):
        page.load_uplot()
