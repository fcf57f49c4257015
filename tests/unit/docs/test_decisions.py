"""Each page of decisions has a status and a date, and is listed under its title."""

import re
from datetime import date

import pytest

from tests.support.checkout import CHECKOUT

FOLDER = CHECKOUT / "docs/decisions"
PAGES = sorted(FOLDER.glob("*/*.md"))
STATUS = re.compile(r"# \d{4} [^\n]+\n\nStatus: (?:accepted|superseded by \[\d{4}\]\([^)]+\)), (\d{4}-\d{2}-\d{2})\n\n")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_decision_has_its_status_and_date_below_its_title(page):
    found = STATUS.match(page.read_text())
    assert found
    assert date.fromisoformat(found[1])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_decision_is_listed_under_its_title(page):
    number, title = re.match(r"# (\d{4}) (.+)", page.read_text()).groups()
    assert f"- [{number}]({page.relative_to(FOLDER)}) {title}\n" in (FOLDER / "README.md").read_text()
