"""docs/explanation/algorithms.md agrees with the code: its table has the expected values of these tests."""

import re

import pytest

from quota.algorithms.registry import AlgorithmName
from tests.evidence.bench.algorithms import COURSE, RATE, WINDOW, run
from tests.support.checkout import CHECKOUT

PAGE = (CHECKOUT / "docs/explanation/algorithms.md").read_text()
ROWS = [
    tuple(cell.strip() for cell in row)
    for row in re.findall(r"^\| (\d+) s \|(.*?)\|(.*?)\|(.*?)\|(.*?)\|$", PAGE, re.MULTILINE)
]


def said(decision):
    codes = [topic.error_code for topic in decision.topics]
    admitted, refused = codes.count(0), codes.count(89)
    parts = [f"{admitted} admitted"] if admitted else []
    if refused:
        parts += [f"{refused} refused" if admitted else "refused", f"{decision.controller_throttle_ms:,} ms"]
    return ", ".join(parts)


def test_the_pages_numbers_are_those_of_the_picture():
    assert "Q = 5, S = 100, W = 1" in PAGE
    assert (RATE, WINDOW.num, WINDOW.size_seconds) == (5, 100, 1)


def test_the_pages_requests_are_those_of_the_picture():
    assert len(ROWS) == 9
    requests = {second: f"{len(topics)} of {topics[0]}" for second, topics in COURSE}
    assert [requests[int(second)] for second, *_ in ROWS] == [request for _, request, *_ in ROWS]


@pytest.mark.parametrize(("column", "name"), list(enumerate(AlgorithmName, 2)), ids=str)
def test_each_column_of_the_page_is_what_is_decided(column, name):
    decisions = dict(run(name).decisions)
    assert [row[column] for row in ROWS] == [said(decisions[int(row[0])]) for row in ROWS]
