"""The smoke form of `make bench`: a cold machine is slower than on the page, but within bounds."""

import json
import os
import subprocess
import sys

import pytest

from tests.evidence.bench.performance import __main__ as bench
from tests.evidence.report import render
from tests.support.checkout import CHECKOUT
from tests.support.programs import OWN_ARCHIVE

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(900)]

WORSE = 20
"""How many times as long as on the page a median may be: a cold and busy machine took up to 8 times as long."""
LEAST_PER_SECOND = 20
"""Requests/s of a tiny backlog, in batches of which each takes a fraction of a second."""


@pytest.fixture(scope="module")
def results():
    """What the program prints; it ends with an error if a request has no answer, or if a process fails."""
    program = [sys.executable, "-m", "tests.evidence.bench.performance", "--smoke"]
    environment = os.environ | OWN_ARCHIVE  # a start measured with an archive has its own
    done = subprocess.run(program, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr[-5000:]
    return json.loads(done.stdout)


def times(sections, section, what):
    """The medians of a figure and of each limit of it, by the names of these limits."""
    return {
        figure["limit"]: (figure["median"], figure["limit_median"])
        for figure in sections[section]
        if figure["what"] == what
    }


def test_each_section_has_figures_on_the_page(results):
    assert set(results["sections"]) == {"batch", *bench.ALL}
    assert "## The start" in render(bench.PAGE.read_text(), results)


@pytest.mark.parametrize(
    ("section", "what"),
    [
        ("latency", "p50 at 200 requests/s"),
        ("batch", "triggerExecution of enforce"),
        ("start", "start to the first decisions"),
        ("start", "the same, with a class archive"),
        ("standby", "clean stop, with a standby"),
        ("standby", "kill -9, with a standby"),
        ("standby", "kill -9, with a standby on another machine"),
        ("standby", "memory of a standby that waits"),
    ],
)
def test_times_are_near_those_of_the_page(results, section, what):
    page = times(json.loads((CHECKOUT / "docs/evidence/performance.json").read_text())["sections"], section, what)
    measured = times(results["sections"], section, what)
    assert page
    assert measured.keys() >= page.keys()
    for limit, usually in page.items():
        for time, usual in zip(measured[limit], usually, strict=True):
            assert usual is None or 0 < time < WORSE * usual, limit


def test_each_side_drains_its_backlog(results):
    rates = [figure for figure in results["sections"]["throughput"] if figure["unit"] == "1/s"]
    assert len(rates) == 6
    assert min(min(figure["median"], figure["limit_median"]) for figure in rates) > LEAST_PER_SECOND
