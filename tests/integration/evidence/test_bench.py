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

WORSE = 10
"""How many times as long as on the page a time may be."""
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


def times(sections, section):
    """The medians of a section's figures and of their limits, by the names of both."""
    return {
        (figure["what"], figure["limit"]): (figure["median"], figure["limit_median"]) for figure in sections[section]
    }


def test_each_section_has_figures_on_the_page(results):
    assert set(results["sections"]) == {"batch", "processors", "first minute", *bench.ALL}
    assert "## The start" in render(bench.PAGE.read_text(), results)


@pytest.mark.parametrize("section", ["latency", "batch", "start"])
def test_times_are_near_those_of_the_page(results, section):
    page = times(json.loads((CHECKOUT / "docs/evidence/performance.json").read_text())["sections"], section)
    for name, taken in times(results["sections"], section).items():
        for side, (seconds, usual) in enumerate(zip(taken, page[name], strict=True)):
            assert usual is None or 0 < seconds < WORSE * usual, (name, side)


def test_each_side_drains_its_backlog(results):
    rates = [figure for figure in results["sections"]["throughput"] if figure["unit"] == "1/s"]
    assert len(rates) == 4
    assert min(min(figure["median"], figure["limit_median"]) for figure in rates) > LEAST_PER_SECOND
