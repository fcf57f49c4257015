"""`explain` and the newest decisions: out of the tables, without Spark; a sentence where nothing is explained."""

import json
import shutil

import msgspec
import pytest

from jobs.audit.decisions import AuditedDecisions, Selection
from jobs.audit.explain import explain_decision, parse_decision_id
from quota.admission.decide import decide
from quota.algorithms.token_bucket import TokenBucket
from quota.errors import BadInput, MutationQuotaError, NotFound
from quota.records.quota_log import Window
from quota.records.record import Source
from quota.settings import load_settings
from tests.support.factories import decided, resolved
from tests.support.programs import run
from tests.support.tables import append_rows, decision_row, quota_change_row

DAY = 86_400_000
REACH = "the audit has decisions up to 2024-10-05T12:00:00.000Z; while it is running, newer ones follow every 2.5 s"
NOON = 20_000 * DAY + DAY // 2


def options(root):
    return [f"storage.root={root}", "quota.window_num=100"]


def settings_of(root):
    return load_settings(options(root), environment={}, with_default_file=False)


@pytest.fixture
def settings(tmp_path):
    return settings_of(tmp_path)


def decisions_at(*times, **fields):
    requests = [resolved(80, at=at, offset=offset, **fields) for offset, at in enumerate(times)]
    return decide(None, requests, TokenBucket(Window(num=100)))[1]


@pytest.fixture(scope="module")
def _kept(tmp_path_factory):
    root = tmp_path_factory.mktemp("kept")
    settings = settings_of(root)
    decisions = decisions_at(*[NOON] * 7, NOON + DAY)
    append_rows(settings, "decisions", *map(decision_row, decisions[:4]))
    append_rows(settings, "decisions", *map(decision_row, decisions[4:]))
    others = [
        {"user_tag": "bob"},
        {"client_tag": "app"},
        {"more_tags": {"group": "payments"}},
        {"quota": None, "tokens": None, "tokens_before": None},
    ]
    for offset, other in enumerate(others, start=100):
        source = Source("mutation-requests", 0, offset)
        changed = msgspec.structs.replace(decisions[3], source=source, decision_id=str(source), **other)
        append_rows(settings, "decisions", decision_row(changed))
    append_rows(settings, "quota_changes", quota_change_row(0, NOON - DAY))
    letter = {"source": {"topic": "mutation-requests", "partition": 0, "offset": 50}, "timestamp": NOON}
    append_rows(settings, "dead_letters", letter | {"error": "topics: missing", "value": "{}"})
    return root, decisions


@pytest.fixture
def kept(_kept, tmp_path):
    """Eight decisions of alice's at noon of two days, and what else is in such tables."""
    root, decisions = _kept
    shutil.copytree(root, tmp_path, dirs_exist_ok=True)
    return decisions


def offsets(decisions):
    return [decision.source.offset for decision in decisions]


def test_decisions_of_its_bucket_come_nearest_first_across_days(settings, kept):
    """At the same timestamp the offset decides."""
    table = AuditedDecisions(settings)
    assert offsets(table.before(kept[7])) == [6, 5, 4, 3, 2, 1, 0]
    assert offsets(table.before(kept[2])) == [1, 0]
    assert offsets(table.after(kept[5])) == [6, 7]


def test_the_offset_orders_decisions_after_a_clock_stepped_back(settings):
    """0 is at noon, 1 a second before it; one of another partition is between them by time, and comes after both."""
    first, back, _ = decisions_at(NOON, NOON - 1000, NOON)
    other = msgspec.structs.replace(
        first, source=Source("mutation-requests", 1, 0), decision_id="mutation-requests-1-0"
    )
    append_rows(settings, "decisions", *map(decision_row, (first, back, other)))
    table = AuditedDecisions(settings)
    assert [later.decision_id[-3:] for later in table.after(first)] == ["0-1", "1-0"]
    assert [earlier.decision_id[-3:] for earlier in table.before(back)] == ["0-0"]
    assert [earlier.decision_id[-3:] for earlier in table.before(other)] == ["0-1", "0-0"]


@pytest.mark.usefixtures("kept")
@pytest.mark.parametrize("damage", [lambda file: file.unlink(), lambda file: file.write_bytes(b"PAR1 and no more")])
def test_missing_or_damaged_files_of_a_table_are_reported_in_one_line(settings, tmp_path, damage):
    for file in (tmp_path / "tables/decisions").rglob("*.parquet"):
        damage(file)
    with pytest.raises(MutationQuotaError, match=r"/tables cannot be read or written: .*; check that storage.root is"):
        explain_decision(settings, "mutation-requests-0-7", 1)


@pytest.mark.usefixtures("kept")
def test_a_decision_is_explained_and_reproduced(settings):
    explanation = explain_decision(settings, "mutation-requests-0-7", 1)
    assert (explanation.refill.written_by, explanation.refill.tokens) == ("mutation-requests-0-6", 500)
    assert (explanation.set_quota.since, explanation.set_quota.altered_by) == (NOON - DAY, "ann")
    assert offsets_of(explanation.before) == ["mutation-requests-0-6"]
    assert explanation.recomputed.differs == []


def offsets_of(neighbours):
    return [neighbour.decision_id for neighbour in neighbours]


@pytest.mark.usefixtures("kept")
def test_the_command_prints_lines_or_json(tmp_path):
    given = [option for setting in options(tmp_path) for option in ("--set", setting)]
    lines = run("explain", "mutation-requests-0-6", *given)
    assert (lines.returncode, lines.stderr) == (0, "")
    assert "K = 20 - 80 = -60" in lines.stdout
    document = json.loads(run("explain", "mutation-requests-0-6", "--output", "json", "--context", "2", *given).stdout)
    assert document["decision"]["tokens"] == -60
    assert [neighbour["decision_id"][-1] for neighbour in (*document["before"], *document["after"])] == ["4", "5", "7"]


@pytest.mark.parametrize("wrong", ["", "7", "mutation-requests-0", "mutation-requests-0-", "a b-0-7", "t-0-x"])
def test_an_invalid_id_is_rejected(wrong):
    with pytest.raises(BadInput, match="expected topic-partition-offset, such as mutation-requests-0-17"):
        parse_decision_id(wrong)


@pytest.mark.usefixtures("kept")
@pytest.mark.parametrize(
    ("offset", "message"),
    [
        (50, "mutation-requests-0-50 is not a decision but a dead letter: topics: missing"),
        (51, f"mutation-requests-0-51: no such decision in the table; {REACH}"),
    ],
)
def test_an_id_without_a_decision_is_reported_as_what_it_is(tmp_path, offset, message):
    settings = load_settings([*options(tmp_path), "audit.trigger_seconds=2.5"], environment={}, with_default_file=False)
    with pytest.raises(NotFound) as error:
        explain_decision(settings, f"mutation-requests-0-{offset}", 0)
    assert str(error.value) == message


@pytest.fixture(scope="module")
def _listed(tmp_path_factory):
    root = tmp_path_factory.mktemp("listed")
    offset = 0
    for user, times in (("alice", (NOON, NOON, NOON + 2 * DAY)), ("bob", (NOON + DAY, NOON + 2 * DAY - 1))):
        requests = [
            resolved(80, at=at, offset=offset + number, user=user, client_id=f"{user}-app")
            for number, at in enumerate(times)
        ]
        offset += len(times)
        for decision in decide(None, requests, TokenBucket(Window()))[1]:
            append_rows(settings_of(root), "decisions", decision_row(decision))
    return root


@pytest.fixture
def listed(_listed, settings, tmp_path):
    """Requests of alice and bob on three days; the second of alice's first day is rejected."""
    shutil.copytree(_listed, tmp_path, dirs_exist_ok=True)
    return AuditedDecisions(settings)


def test_a_topic_selects_what_names_it_and_rejected_what_was_rejected_also_in_shadow(settings):
    decisions = [
        decided(20, 1, 1, at=NOON, state=15.0, offset=0),  # topic-0 is admitted, and the others are not
        decided(3, at=NOON, state=5.0, offset=1),
        decided(3, at=NOON, state=-1.0, offset=2, shadow=True),
    ]
    append_rows(settings, "decisions", *map(decision_row, decisions))
    listed = AuditedDecisions(settings)
    assert [offset for _, offset in latest(listed, rejected=True)] == [0, 2]
    assert [offset for _, offset in latest(listed, topic="topic-0")] == [0, 1, 2]
    assert [offset for _, offset in latest(listed, topic="topic-0", rejected=True)] == [2]
    assert [offset for _, offset in latest(listed, topic="topic-2", rejected=True)] == [0]
    assert latest(listed, topic="' OR true OR '") == []


@pytest.mark.usefixtures("listed")
def test_the_last_rejection_of_a_sender_is_explained(settings, tmp_path):
    root = ("--set", f"storage.root={tmp_path}")
    append_rows(settings, "quota_changes", quota_change_row(0, NOON - DAY))
    said = run("explain", *root, "--last", "--user", "alice", "--client", "alice-app")
    sentence, heading, *_ = said.stdout.splitlines()
    assert sentence.startswith("Creating topic 'topic-0' (80 mutations) was rejected because the quota of")
    assert heading.startswith("mutation-requests-0-1: REJECTED")
    assert said.stderr.startswith("The audit has decisions up to ")
    none = run("explain", *root, "--last", "--user", "bob", "--topic", "t")
    assert (none.returncode, none.stdout) == (4, "")
    assert none.stderr.startswith(
        "mutation-quota: no decision of user 'bob', topic 't' rejected a topic; the audit has "
    )


@pytest.mark.parametrize(
    "given", [[], ["--user", "alice"], ["mutation-requests-0-1", "--last"], ["x-0-1", "--topic", "t"]]
)
def test_either_an_id_or_last_says_which_decision_to_explain(given):
    done = run("explain", *given)
    assert (done.returncode, "which decision? give its ID, or --last" in done.stderr) == (2, True)


def latest(listed, limit=100, **selection):
    return [(decision.user, decision.source.offset) for decision in listed.latest(Selection(**selection), limit)]


def test_the_newest_are_last_and_a_limit_leaves_them(listed):
    assert latest(listed) == [("alice", 0), ("alice", 1), ("bob", 3), ("bob", 4), ("alice", 2)]
    assert latest(listed, 3) == [("bob", 3), ("bob", 4), ("alice", 2)]


@pytest.mark.parametrize(
    ("selection", "expected"),
    [
        ({"user": "bob"}, [3, 4]),
        ({"client_id": "bob-app"}, [3, 4]),
        ({"user": "alice", "client_id": "bob-app"}, []),
        ({"rejected": True}, [1]),
        ({"start": NOON + 1}, [3, 4, 2]),
        ({"end": NOON + DAY}, [0, 1]),
        ({"start": NOON + DAY, "end": NOON + 2 * DAY}, [3, 4]),
    ],
)
def test_a_selection_excludes_other_decisions(listed, selection, expected):
    assert [offset for _, offset in latest(listed, **selection)] == expected
