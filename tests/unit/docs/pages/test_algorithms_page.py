"""docs/explanation/algorithms.md agrees with the code: its table has the expected values of these tests."""

import re

import pytest

from quota.admission.decide import decide
from quota.records.quota_log import Window
from quota.whatif.rejected_algorithms import AlgorithmName, make_algorithm
from tests.support.checkout import CHECKOUT
from tests.support.factories import resolved

RATE, WINDOW = 5.0, Window(num=100)
BURST, AGAIN, SMALL = [80] * 7, [80] * 5, [20]
COURSE = [(0, BURST), *((second, SMALL) for second in range(4, 64, 4)), (120, AGAIN), (124, SMALL), (128, SMALL)]
"""KIP-599's burst; a topic of 20 partitions every 4 s, which is Q, for a minute; a minute's pause; a second burst.

Each entry is a time (seconds) and the partitions of each topic.
"""

PAGE = (CHECKOUT / "docs/explanation/algorithms.md").read_text().partition("## The worked example")[0]
ROWS = [
    tuple(cell.strip() for cell in row)
    for row in re.findall(r"^\| (\d+) s \|(.*?)\|(.*?)\|(.*?)\|(.*?)\|$", PAGE, re.MULTILINE)
]


def said(decision):
    codes = [topic.error_code for topic in decision.topics]
    admitted, rejected = codes.count(0), codes.count(89)
    parts = [f"{admitted} admitted"] if admitted else []
    if rejected:
        parts += [f"{rejected} rejected" if admitted else "rejected", f"{decision.controller_throttle_ms:,} ms"]
    return ", ".join(parts)


def decisions_of(name):
    """Decide the course, and return the decisions by their second."""
    algorithm, state, decisions = make_algorithm(name, WINDOW), None, {}
    for second, topics in COURSE:
        state, decision = decide(state, resolved(*topics, at=second * 1000, rate=RATE), algorithm)
        decisions[second] = decision
    return decisions


def test_the_pages_numbers_and_requests_are_those_of_these_tests():
    assert "Q = 5, S = 100, W = 1" in PAGE
    assert len(ROWS) == 9
    requests = {second: f"{len(topics)} of {topics[0]}" for second, topics in COURSE}
    assert [requests[int(second)] for second, *_ in ROWS] == [request for _, request, *_ in ROWS]


@pytest.mark.parametrize(("column", "name"), list(enumerate(AlgorithmName, 2)), ids=str)
def test_each_column_of_the_page_is_what_is_decided(column, name):
    decisions = decisions_of(name)
    assert [row[column] for row in ROWS] == [said(decisions[int(row[0])]) for row in ROWS]
