"""`decisions list`: the decisions of the audit, for people and for programs."""

import json

import pytest
from msgspec.structs import replace

from quota.kafka.timing import now_ms
from quota.records.decision import Outcome, Repeat, Shadow, Withdrawal
from quota.records.request import Observed
from tests.support.factories import decided
from tests.support.programs import run
from tests.support.tables import append_rows, decision_row

NOON, HOUR = 1_728_043_200_000, 3_600_000


@pytest.fixture
def listed(settings, tmp_path):
    """Run `decisions list` on one decision that admits and one that rejects."""
    append_rows(settings, "decisions", decision_row(decided(3, at=NOON, client_id="app", offset=1)))
    append_rows(settings, "decisions", decision_row(decided(4, at=NOON + 1, state=-10.0, user="bob", offset=2)))
    return lambda *args: run("decisions", "list", "--set", f"storage.root={tmp_path}", *args, cwd=tmp_path)


def test_a_decision_is_a_line(listed):
    heading, *lines = listed().stdout.splitlines()
    assert " ".join(heading.split()) == (
        "DECISION REQUESTED USER / CLIENT-ID OPERATION TOPICS MUTATIONS TOKENS OUTCOME REASON THROTTLED"
    )
    noon = "2024-10-04T12:00:00"
    assert [" ".join(line.split()) for line in lines] == [
        f"mutation-requests-0-1 {noon}.000Z alice / app CREATE_TOPICS topic-0 3 52 ADMITTED - 0 s",
        f"mutation-requests-0-2 {noon}.001Z bob / <none> CREATE_TOPICS topic-0 4 -10 REJECTED EXHAUSTED 2 s",
    ]


def test_json_has_the_fields_of_the_decisions_topic(listed):
    (decision,) = json.loads(listed("--rejected", "--output", "json").stdout)["decisions"]
    assert (decision["user"], decision["outcome"], decision["throttle_time_ms"]) == ("bob", "REJECTED", 2000)
    assert decision["topics"][0]["error"] == "THROTTLING_QUOTA_EXCEEDED"


def test_decisions_can_be_selected_by_the_reasons_that_decisions_have(listed):
    (decision,) = json.loads(listed("--reason", "EXHAUSTED", "--output", "json").stdout)["decisions"]
    assert (decision["user"], decision["topics"][0]["reason"]) == ("bob", "EXHAUSTED")
    other = listed("--reason", "NO_DECISION")
    assert (other.stderr.splitlines()[-1], other.returncode) == (
        "mutation-quota: --reason: NO_DECISION is not a decision's; see docs/reference/errors.md#rejected-topics",
        2,
    )


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


@pytest.fixture
def used(settings, tmp_path):
    """Run `decisions top` on requests of three users in an hour, and of dora before it."""

    def row(offset, *partitions, user, at=NOON, **fields):
        made = decided(*partitions, at=at, user=user, offset=offset, **fields.pop("made", {}))
        return decision_row(replace(made, **{"user_tag": user} | fields))

    shadow = Shadow(Outcome.REJECTED, [89, 89], 5, 5)
    rows = [
        row(1, 30, user="alice", client_id="app"),
        row(2, 4, 5, user="alice", repeats=Repeat("mutation-requests-0-1", 1)),  # 4 were paid
        row(3, 70, user="alice", validate_only=True),
        row(4, 9, user="bob", client_id="app", made={"state": -1.0}),
        row(5, 50, 7, user="carol", user_tag="", more_tags={"group": "pay"}, shadow=shadow),
        row(6, 8, user="carol", observed=Observed(NOON, [0], 0, 0), shadow=Shadow(Outcome.ADMITTED, [0], 0, 0)),
        row(7, 8, user="carol", validate_only=True, withdraws=Withdrawal("mutation-requests-0-6", 8.0)),
        row(8, 999, user="dora", at=NOON - 1),
        row(9, 999, user="dora", at=NOON + HOUR),
    ]
    append_rows(settings, "decisions", *rows)
    period = ("--from", str(NOON), "--to", str(NOON + HOUR))
    return lambda *args: run("decisions", "top", *period, "--set", f"storage.root={tmp_path}", *args, cwd=tmp_path)


def test_the_users_with_the_most_mutations_come_first(used):
    """Repeated and validate-only topics cost nothing; what shadow, a log or a withdrawal adds is told."""
    lines = [" ".join(line.split()) for line in used().stdout.splitlines()]
    at = "2024-10-04T12:00:00.000Z"
    assert lines == [
        "USER REQUESTS REQUESTED ADMITTED REJECTED SHADOW OBSERVED WITHDRAWN LAST",
        f"carol 2 65 65 0 57 8 8 {at}",
        f"alice 2 35 35 0 - - - {at}",
        f"bob 1 9 0 9 - - - {at}",
    ]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--by", "client"], [("<none>", 70), ("app", 39)]),
        (
            ["--by", "bucket"],
            [({"group": "pay"}, 57), ({"user": "alice"}, 35), ({"user": "bob"}, 9), ({"user": "carol"}, 8)],
        ),
        (["--sort", "rejected"], [("bob", 9)]),
        (["--sort", "admitted", "--client", "app"], [("alice", 30)]),
        (["--user", "alice", "--by", "client"], [("app", 30), ("<none>", 5)]),
        (["--limit", "1"], [("carol", 65)]),
    ],
)
def test_the_sums_are_of_what_is_asked_for(used, options, expected):
    document = json.loads(used(*options, "--output", "json").stdout)
    top = [(each["user"] or each["client_id"] or each["bucket"], each["requested"]) for each in document["top"]]
    assert (top, document["left_out"]) == (expected, 2 if "--limit" in options else 0)
    assert (document["from"], document["to"], document["newest_at"]) == (NOON, NOON + HOUR, NOON + HOUR)


def test_the_last_hour_is_the_default_and_nobody_is_not_found(used, settings, tmp_path):
    append_rows(settings, "decisions", decision_row(decided(3, at=now_ms() - HOUR // 2, user="zoe", offset=10)))
    done = run("decisions", "top", "--set", f"storage.root={tmp_path}", "--output", "json", cwd=tmp_path)
    assert [each["user"] for each in json.loads(done.stdout)["top"]] == ["zoe"]
    nobody = used("--user", "nobody")
    assert (nobody.returncode, nobody.stdout) == (4, "")
    assert nobody.stderr.endswith("mutation-quota: no requested mutations in that period\n")
