"""The smoke form of `make bench`: each section, with a load of seconds; nobody reads its figures."""

import json
import os
import subprocess
import sys

import pytest

from tests.evidence.bench.performance import __main__ as bench
from tests.evidence.bench.performance.ground import Ground
from tests.evidence.bench.performance.sections.decision import decisions
from tests.evidence.report import render
from tests.support.deployment import with_sections
from tests.support.programs import OWN_ARCHIVE

SECTIONS = [name for name in bench.SECTIONS if name not in bench.ON_REQUEST]


@pytest.mark.timeout(600)
def test_each_section_that_shares_a_session_has_figures(spark, deployment, tmp_path):
    """Those that start processes of their own, and those that only `--only` measures, take a minute more: nightly."""
    place = Ground(spark, with_sections(deployment, audit={"trigger_seconds": 1.0}), tmp_path, [].append)
    figures = [*decisions(rounds=1), *bench.in_one_session(place, bench.SMOKE, SECTIONS)]
    results = json.loads(json.dumps(bench.results(figures, seconds=1.0)))
    assert set(results["sections"]) == {"decision", "batch", "processors", *SECTIONS}
    assert results["goals"]["count"] >= 3


@pytest.mark.nightly
@pytest.mark.timeout(900)
def test_the_program_prints_the_figures_of_all_sections():
    program = [sys.executable, "-m", "tests.evidence.bench.performance", "--smoke"]
    environment = os.environ | OWN_ARCHIVE  # a start measured with an archive has its own
    done = subprocess.run(program, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr[-5000:]
    results = json.loads(done.stdout)
    assert set(results["sections"]) == {"batch", "processors", "first minute", *bench.ALL}
    assert "## The start" in render(bench.PAGE.read_text(), results)
