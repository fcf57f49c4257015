"""The page on the tables counts mutations as the code does."""

from jobs.report.queries import EFFECTIVE
from tests.support.checkout import CHECKOUT


def test_both_views_of_mutations_include_the_effective_ones():
    page = (CHECKOUT / "docs/reference/tables.md").read_text()
    assert page.count(f"WHERE {EFFECTIVE.format(number='number')}") == 2
