"""`decisions list`: the decisions of the audit, for people and for programs."""

import json

import pytest

from tests.support.factories import decided
from tests.support.programs import run
from tests.support.tables import append_rows, decision_row

NOON = 1_728_043_200_000


@pytest.fixture
def listed(settings, tmp_path):
    """Run `decisions list` on one decision that admits and one that rejects."""
    append_rows(settings, "decisions", decision_row(decided(3, at=NOON, client_id="app", offset=1)))
    append_rows(settings, "decisions", decision_row(decided(4, at=NOON + 1, state=-10.0, user="bob", offset=2)))
    return lambda *args: run("decisions", "list", "--set", f"storage.root={tmp_path}", *args, cwd=tmp_path)


def test_a_decision_is_a_line(listed):
    heading, *lines = listed().stdout.splitlines()
    assert " ".join(heading.split()) == (
        "DECISION REQUESTED USER / CLIENT-ID OPERATION TOPICS MUTATIONS TOKENS OUTCOME THROTTLED"
    )
    assert [" ".join(line.split()) for line in lines] == [
        "mutation-requests-0-1 2024-10-04T12:00:00.000Z alice / app CREATE_TOPICS topic-0 3 52 ADMITTED 0 s",
        "mutation-requests-0-2 2024-10-04T12:00:00.001Z bob / <none> CREATE_TOPICS topic-0 4 -10 REJECTED 2 s",
    ]


def test_json_has_the_fields_of_the_decisions_topic(listed):
    (decision,) = json.loads(listed("--rejected", "--output", "json").stdout)["decisions"]
    assert (decision["user"], decision["outcome"], decision["throttle_time_ms"]) == ("bob", "REJECTED", 2000)
    assert decision["topics"][0]["error"] == "THROTTLING_QUOTA_EXCEEDED"


@pytest.mark.parametrize("option", [("--user", "carol"), ("--topic", "none"), ("--from", "2024-10-05")])
def test_a_selection_without_decisions_is_not_found_but_an_empty_list_for_programs(option, listed):
    done = listed(*option)
    assert (done.stdout, done.stderr.splitlines()[-1], done.returncode) == ("", "mutation-quota: no such decisions", 4)
    for_programs = listed(*option, "--output", "json")
    assert (json.loads(for_programs.stdout)["decisions"], for_programs.returncode) == ([], 4)


@pytest.mark.parametrize("option", [(), ("--user", "carol"), ("--to", "2024-10-05")])
def test_the_list_shows_the_time_up_to_which_the_audit_has_decisions(listed, option):
    assert listed(*option).stderr.startswith(
        "The audit has decisions up to 2024-10-04T12:00:00.001Z; newer ones follow while it is running.\n"
    )


def test_a_period_that_the_audit_has_passed_is_complete(listed):
    done = listed("--to", str(NOON + 1))
    assert (len(done.stdout.splitlines()), done.stderr) == (2, "")  # the heading and a decision


def test_json_has_the_time_of_the_newest_decision_of_all_clients(listed):
    assert json.loads(listed("--user", "alice", "--output", "json").stdout)["newest_at"] == NOON + 1
