"""Decisions out of the tables, without Spark: one with its explanation, and the newest of a selection."""

import json
from pathlib import Path
from unittest.mock import Mock

import duckdb
import msgspec
import pytest
from pyarrow.fs import LocalFileSystem

from jobs.audit.decisions import AuditedDecisions, Selection, explain_decision, explain_newest, read_answers
from jobs.audit.reader import open_table, read_errors
from jobs.audit.tables import DECISIONS
from jobs.audit.usage import with_outlook
from quota.algorithms.token_bucket import TokenBucket
from quota.errors import BadInput, MutationQuotaError, NotFound
from quota.explanation.explanation_text import explanation_lines, explanation_rows
from quota.records.quota_log import Window
from quota.records.reason import Reason
from quota.records.record import Source
from quota.settings import load_settings
from tests.support.deployment import with_sections
from tests.support.factories import decide_all, decided, resolved
from tests.support.full_disk import fill_disk
from tests.support.programs import run
from tests.support.tables import append_rows, decision_row, quota_change_row

DAY = 86_400_000
REACH = "the audit has decisions up to 2024-10-05T12:00:00.000Z; while it is running, newer ones follow every 2.5 s"
NOON = 20_000 * DAY + DAY // 2


def options(root):
    return [f"storage.root={root}", "quota.window_num=100"]


@pytest.fixture
def settings(tmp_path):
    return load_settings(options(tmp_path), environment={}, with_default_file=False)


def decisions_at(*times, **fields):
    requests = [resolved(80, at=at, offset=offset, **fields) for offset, at in enumerate(times)]
    return decide_all(*requests, algorithm=TokenBucket(Window(num=100)))[1]


@pytest.fixture
def kept(settings):
    """Eight decisions of alice's at noon of two days, and what else is in such tables."""
    decisions = decisions_at(*[NOON] * 7, NOON + DAY)
    append_rows(settings, "decisions", *map(decision_row, decisions[:4]))
    append_rows(settings, "decisions", *map(decision_row, decisions[4:]))
    letter = {"source": {"topic": "mutation-requests", "partition": 0, "offset": 50}, "timestamp": NOON}
    append_rows(settings, "dead_letters", letter | {"error": "topics: missing", "value": "{}"})


@pytest.mark.usefixtures("kept")
@pytest.mark.parametrize("damage", [lambda file: file.unlink(), lambda file: file.write_bytes(b"PAR1 and no more")])
def test_missing_or_damaged_files_of_a_table_are_reported_in_one_line(settings, tmp_path, damage):
    for file in (tmp_path / "tables/decisions").rglob("*.parquet"):
        damage(file)
    with pytest.raises(MutationQuotaError, match=r"/tables cannot be read or written: .*; check that storage.root is"):
        explain_decision(settings, "mutation-requests-0-7")


def test_the_age_of_the_metadata_is_explained_that_a_callback_had(settings):
    decisions = decisions_at(NOON, NOON + DAY)
    by_callback = msgspec.structs.replace(decisions[0], callback="our.Callback")
    append_rows(settings, "decisions", *map(decision_row, [by_callback, decisions[1]]))
    assert explain_decision(settings, by_callback.decision_id).metadata_at is None  # there is no table of changes
    times = (NOON - 90 * DAY, NOON + 1)
    clusters = [quota_change_row(offset, at, kind="cluster", cluster="{}") for offset, at in enumerate(times)]
    append_rows(settings, "quota_changes", *clusters, quota_change_row(2, NOON))
    explanation = explain_decision(settings, by_callback.decision_id)
    assert explanation.metadata_at == NOON - 90 * DAY
    (row,) = [row for row in explanation_rows(explanation) if row.part == "metadata"]
    assert row.text == "the callback had the cluster's of 2024-07-06T12:00:00.000Z, 90 d before"
    assert explain_decision(settings, decisions[1].decision_id).metadata_at is None


def test_a_decision_is_explained_and_reproduced_to_the_last_bit_from_its_row(settings):
    """A third of a token, and a time before 1970 does not fit: the quota has been in force since ever."""
    requests = [
        resolved(7, at=NOON, offset=0, rate=1 / 3, burst=0.1),
        resolved(1, at=NOON + 1, offset=1, rate=0.7, max_debt_ms=5000, validate_only=True),
        resolved(1, at=NOON + 3, offset=2, rate=0.7, since=NOON + 2, max_debt_ms=5000),
        resolved(1, at=NOON + 2, offset=3, rate=0.7, since=NOON + 2, max_debt_ms=5000, reset_at=NOON + 1),
        resolved(1, at=NOON, offset=4, rate=None),
    ]
    decisions = decide_all(*requests, algorithm=TokenBucket(Window()))[1]
    append_rows(settings, "decisions", *map(decision_row, decisions))
    for decision in decisions:
        explanation = explain_decision(settings, decision.decision_id)
        assert (explanation.decision, explanation.recomputed.differs) == (decision, [])


def test_a_row_of_an_older_program_is_explained_from_its_tokens(settings):
    (decision,) = decisions_at(NOON)
    append_rows(settings, "decisions", decision_row(msgspec.structs.replace(decision, bucket_before=None)))
    explanation = explain_decision(settings, decision.decision_id)
    assert ([charge.tokens for charge in explanation.charges], explanation.recomputed) == ([420], None)


def test_decisions_that_are_only_counted_are_read_without_the_bucket_unless_they_are_late(settings):
    requests = [resolved(80, at=at, offset=at % 2, partition=at % 2) for at in (NOON + 1, NOON)]
    first, late = decide_all(*requests, algorithm=TokenBucket(Window(num=100)))[1]
    append_rows(settings, "decisions", decision_row(first), decision_row(late))
    with duckdb.connect() as db:
        rows = db.from_arrow(open_table(settings, DECISIONS).dataset().to_table())
        read = {decision.decision_id: decision for decision, _ in read_answers(rows, with_buckets=False)}
    assert read == {first.decision_id: msgspec.structs.replace(first, bucket_before=None), late.decision_id: late}


@pytest.mark.usefixtures("kept")
def test_the_command_prints_lines_or_json(tmp_path):
    given = [option for setting in options(tmp_path) for option in ("--set", setting)]
    lines = run("explain", "mutation-requests-0-6", *given)
    assert (lines.returncode, lines.stderr) == (0, "")
    assert "K = 20 - 80 = -60" in lines.stdout
    document = json.loads(run("explain", "mutation-requests-0-6", "--output", "json", *given).stdout)
    assert (document["decision"]["tokens"], document["recomputed"]["differs"]) == (-60, [])


def test_an_explanation_ends_with_who_used_the_bucket_and_what_is_scheduled(settings):
    """Of alice's bucket; her earlier mutations are more than an hour ago, and bob's change does not concern her."""
    times = [NOON - DAY, NOON - 2000, NOON - 1000, NOON]
    decisions = [
        msgspec.structs.replace(decision, client_id=client)
        for decision, client in zip(decisions_at(*times), ("app", "etl", "app", "etl"), strict=True)
    ]
    append_rows(settings, "decisions", *map(decision_row, decisions))
    explanation = explain_decision(settings, decisions[-1].decision_id)
    assert with_outlook(settings, explanation, NOON + 1).scheduled == []  # there is no table of changes
    later = {"effective_at": NOON + DAY, "controller_mutation_rate": 10.0}
    rows = [quota_change_row(0, NOON - DAY), quota_change_row(1, NOON, **later)]
    append_rows(settings, "quota_changes", *rows, quota_change_row(2, NOON, **later, entity='{"user":"bob"}'))
    callback = {"kind": "callback", "callback": "a.B", "entity": None, "controller_mutation_rate": None}
    altered = {"callback_configs": [("tenants", "9")], "altered_configs": ["tenants"]}
    append_rows(settings, "quota_changes", quota_change_row(3, NOON, effective_at=NOON + DAY, **callback, **altered))
    in_settings = {"callback_class": "a.B", "callback_configs": {"region": "eu"}}
    explained = with_outlook(with_sections(settings, quota=in_settings), explanation, NOON + 1)
    assert [text for text, _ in explanation_lines(explained, NOON + 1)][-3:] == [
        "  last hour   240 mutations, of 'etl' 67%, 'app' 33%",
        "  scheduled   the callback is a.B region=eu tenants=9 from 2024-10-05T12:00:00.000Z on",
        "  scheduled   user-principal 'alice' becomes controller_mutation_rate=10.0 from 2024-10-05T12:00:00.000Z on",
    ]


@pytest.mark.parametrize("wrong", ["", "7", "mutation-requests-0", "mutation-requests-0-", "a b-0-7", "t-0-x"])
def test_an_invalid_id_is_rejected(wrong):
    with pytest.raises(BadInput, match="expected topic-partition-offset, such as mutation-requests-0-17"):
        Source.parse(wrong, "decision")


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
        explain_decision(settings, f"mutation-requests-0-{offset}")
    assert str(error.value) == message


@pytest.fixture
def listed(settings):
    """Requests of alice and bob on three days, with the clock set back after alice's; her second is rejected."""
    offset = 0
    for user, times in (("alice", (NOON, NOON, NOON + 2 * DAY)), ("bob", (NOON + DAY, NOON + 2 * DAY - 1))):
        requests = [
            resolved(80, at=at, offset=offset + number, user=user, client_id=f"{user}-app")
            for number, at in enumerate(times)
        ]
        offset += len(times)
        decisions = decide_all(*requests, algorithm=TokenBucket(Window()))[1]
        append_rows(settings, "decisions", *map(decision_row, decisions))
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


def test_a_reason_selects_rejections_also_in_shadow_and_of_older_programs(settings):
    """Their rows have no reasons."""
    rows = [
        decision_row(decided(1, at=NOON, state=state, offset=offset, shadow=shadow))
        for offset, (state, shadow) in enumerate([(5.0, False), (-1.0, False), (-1.0, True), (-1.0, False)])
    ]
    del rows[3]["topics"][0]["reason"]
    limited = decision_row(decided(1, at=NOON, state=-1.0, offset=4))
    limited["topics"][0] |= {"error_code": 44, "error": "POLICY_VIOLATION", "reason": "EXCEEDS_LIMIT"}
    append_rows(settings, "decisions", *rows, limited)
    listed = AuditedDecisions(settings)
    for reason, expected in ((Reason.EXHAUSTED, [1, 2, 3]), (Reason.EXCEEDS_LIMIT, [4])):
        found = listed.latest(Selection(rejected=True, reason=reason), 100)
        assert [decision.source.offset for decision in found] == expected
        assert {decision.reason for decision in found} == {reason}
    assert listed.latest(Selection(topic="t", rejected=True, reason=Reason.EXHAUSTED), 100) == []


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


@pytest.mark.parametrize(("before", "after"), [(0, 0), (2, 0), (0, 1), (3, 5)])
def test_the_last_rejection_is_explained_with_what_a_gateway_rejected_without_a_record(settings, before, after):
    """The client's next request reports it, and another client's or an earlier one tells nothing of it."""
    requests = [
        resolved(1, at=NOON - 1, offset=0, unrecorded=99),
        resolved(80, at=NOON, offset=1, unrecorded=7),
        resolved(1, at=NOON + 1, offset=2, unrecorded=before),
        resolved(1, at=NOON + 2, offset=3, user="bob", validate_only=True, unrecorded=99),
        resolved(1, at=NOON + 20_000, offset=4, unrecorded=after),
        resolved(1, at=NOON + 20_001, offset=5),
    ]
    decisions = decide_all(*requests, algorithm=TokenBucket(Window()))[1]
    append_rows(settings, "decisions", *map(decision_row, decisions))
    explanation, _ = explain_newest(settings, Selection(user="alice", rejected=True))
    assert explanation.decision.decision_id == "mutation-requests-0-2"
    assert explanation.recomputed.differs == []
    rows = [row.text for row in explanation_rows(explanation) if row.part == "gateway"]
    assert rows == [
        f"{when} this, rejected {count} {'topic' if count == 1 else 'topics'} without a record, since it knew the debt"
        for when, count in (("before", before), ("after", after))
        if count
    ]


@pytest.mark.usefixtures("listed")
def test_without_a_rejection_what_was_decided_last_is_told(settings, tmp_path):
    """Bob, who shares the bucket of alice, was admitted with 55 of 55 tokens; a user without a quota has no bucket."""
    said = run("explain", "--set", f"storage.root={tmp_path}", "--last", "--user", "bob")
    assert (said.returncode, said.stdout) == (4, "")
    assert said.stderr.startswith(
        "mutation-quota: no decision of user 'bob' rejected a topic; the newest is of 2024-10-06T11:59:59.999Z: "
        "Creating topic 'topic-0' (80 mutations) was admitted: the quota of 5 mutations/s of user 'alice', shared by "
        "all their client-ids, had 55 mutations left, and its bucket had -25 tokens afterwards "
        "(mutation-quota explain mutation-requests-0-4); the audit has "
    )
    free = msgspec.structs.replace(decided(3, at=NOON, user="zoe", offset=9), quota=None, tokens=None)
    append_rows(settings, "decisions", decision_row(free))
    said = run("explain", "--set", f"storage.root={tmp_path}", "--last", "--user", "zoe")
    assert "was admitted: no quota applied (mutation-quota explain mutation-requests-0-9); the audit" in said.stderr


def latest(listed, limit=100, **selection):
    return [(decision.user, decision.source.offset) for decision in listed.latest(Selection(**selection), limit)]


def test_the_newest_of_a_partition_are_last_also_after_its_clock_was_set_back_and_a_limit_leaves_them(listed):
    assert latest(listed) == [("alice", 0), ("alice", 1), ("alice", 2), ("bob", 3), ("bob", 4)]
    assert latest(listed, 3) == [("alice", 2), ("bob", 3), ("bob", 4)]
    assert latest(listed, 1) == [("bob", 4)]


@pytest.mark.parametrize(
    ("selection", "expected"),
    [
        ({"user": "bob"}, [3, 4]),
        ({"client_id": "bob-app"}, [3, 4]),
        ({"user": "alice", "client_id": "bob-app"}, []),
        ({"rejected": True}, [1]),
        ({"start": NOON + 1}, [2, 3, 4]),
        ({"end": NOON + DAY}, [0, 1]),
        ({"start": NOON + DAY, "end": NOON + 2 * DAY}, [3, 4]),
    ],
)
def test_a_selection_excludes_other_decisions(listed, selection, expected):
    assert [offset for _, offset in latest(listed, **selection)] == expected


def test_a_full_disk_of_temporary_files_is_no_error_of_the_table(settings, tmp_path, monkeypatch):
    """A table in an object store is copied, and DuckDB sorts in files of its own."""
    append_rows(settings, "decisions", decision_row(decided(3, at=NOON)))
    table = open_table(settings, DECISIONS)
    (stored,) = tmp_path.glob("tables/decisions/*/*.parquet")
    monkeypatch.setattr(table, "dataset", lambda *_: Mock(filesystem=LocalFileSystem(), files=[str(stored)]))
    with table.files() as copies:
        assert [Path(copy).read_bytes() for copy in copies] == [stored.read_bytes()]
    fill_disk(monkeypatch)
    with pytest.raises(OSError, match="No space left") as raised, table.files():
        pass
    assert raised.value.filename.endswith("/0.parquet")
    sorting = duckdb.IOException('IO Error: Could not write file "/tmp/x/duckdb_temp_storage-0.tmp": No space left')
    with (
        pytest.raises(MutationQuotaError, match=r"^a temporary file is not written, see TMPDIR: IO Error"),
        read_errors(settings),
    ):
        raise sorting


@pytest.mark.parametrize(
    ("error", "raised"),
    [
        (OSError("Out of Memory Error: failed to pin block"), duckdb.OutOfMemoryException),
        (OSError("Input/output error"), OSError),
    ],
)
def test_memory_that_is_used_up_while_rows_are_read_is_no_error_of_the_store(error, raised):
    """Arrow's reader has the text of DuckDB's error alone."""
    rows = Mock()
    rows.project.return_value.to_arrow_reader.return_value = iter(lambda: (_ for _ in ()).throw(error), None)
    with pytest.raises(raised, match=str(error)):
        list(read_answers(rows))
