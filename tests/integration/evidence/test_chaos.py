"""The smoke form of `make chaos`: each kind of failure once loses, duplicates and changes nothing."""

import json
import os
import subprocess
import sys

import pytest

from tests.evidence.chaos.__main__ import PAGE, SECTIONS
from tests.evidence.report import render
from tests.support.needs import need

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.timeout(1800),  # a busy machine is no failure
]


@pytest.fixture(scope="module")
def results():
    """What the program prints, which ends with an error if anything is wrong."""
    need(os.geteuid() == 0, "only root may mount a small disk; run the tests as root")
    program = [sys.executable, "-m", "tests.evidence.chaos", "--smoke"]
    done = subprocess.run(program, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-5000:]
    return json.loads(done.stdout)


def test_each_kind_of_failure_happened_once(results):
    """Of the job at a step of either query with a standby, of its workers, at random, and when the audit joined."""
    assert set(SECTIONS) < set(results)
    assert (results["job"]["kills"], results["job"]["standing_by"]) == (5, 2)
    assert [failure["count"] for failure in results["brokers"]["failures"]] == [1, 0, 1]
    assert (results["store"]["after_a_batch"], results["store"]["standing_by"]) == (2, 1)
    assert results["surroundings"]["fills"] > 0


def test_clients_that_give_up_are_charged_for_what_exists(results):
    clients = results["clients"]
    assert (clients["kills"], clients["charged_minus_made"]) == (1, 0)
    assert min(clients["withdrawn"], clients["steps"]["created"]) > 0


@pytest.mark.parametrize("section", ["job", "brokers", "store"])
def test_requests_were_decided_meanwhile(results, section):
    verdict = results[section]
    assert min(verdict["decisions"], verdict["rejected"], verdict["quota_changes"]) > 0
    assert set(verdict["wrong"].values()) == {0}


@pytest.mark.parametrize("section", ["job", "store"])
def test_the_writers_of_files_were_checked_and_the_standbys_were_among_them(results, section):
    checked = results[section]
    assert checked["claims"] > checked["standing_by"]
    assert checked["writes"] > 0


def test_the_results_are_on_the_page(results):
    assert "| kills | 5 |" in render(PAGE.read_text(), results)
