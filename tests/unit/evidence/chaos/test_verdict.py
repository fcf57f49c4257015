"""The verdict on a deployment that was killed: it finds all that could be wrong."""

import json
from dataclasses import replace
from datetime import UTC, date, datetime

import pytest

from tests.evidence.chaos import verdict
from tests.evidence.chaos.records import Evidence, Stored
from tests.evidence.chaos.steps import Step, Written, enforce_step
from tests.support.factories import PERMISSIVE, STRICT, request_json

DAY = 86_400_000


def request(offset, at, *partitions, **fields):
    return Stored("in", 0, offset, DAY + at, b"alice", request_json(*partitions, **fields))


def quota(offset, at, rate):
    value = {"entity": {"user": "alice"}, "controller_mutation_rate": rate}
    return Stored("quotas", 0, offset, DAY + at, b'{"user":"alice"}', json.dumps(value).encode())


def decision(offset, at, before, after, *codes):
    """Return a hand-made decision and its row; one field represents all further ones."""
    content = {"decision_id": f"in-0-{offset}", "source": {"topic": "in", "partition": 0, "offset": offset}}
    content |= {"tokens_before": before, "tokens": after, "topics": [{"error_code": code} for code in codes]}
    content["quota_entity"] = {"user": "alice"}
    written = Stored("out", 0, offset, DAY + at + 50, b"alice", json.dumps(content | {"timestamp": DAY + at}).encode())
    row = content | {"date": date(1970, 1, 2), "timestamp": moment(at), "decided_at": moment(at + 50)}
    return written, row | {"quota_entity": '{"user":"alice"}', "expires_at": None, "more_tags": []}


def moment(at):
    return datetime.fromtimestamp((DAY + at) / 1000, UTC).replace(tzinfo=None)


def letter(offset, at):
    source = {"topic": "in", "partition": 0, "offset": offset}
    content = {"error": "value: not JSON", "value": "no json", "source": source}
    written = Stored("dead", 0, 0, DAY + at, b"alice", json.dumps(content | {"timestamp": DAY + at}).encode())
    return written, content | {"timestamp": moment(at), "date": date(1970, 1, 2)}


def quota_row(offset, at, rate):
    content = {"source": {"topic": "quotas", "partition": 0, "offset": offset}, "kind": "quota", "shadow": False}
    content |= {"entity": '{"user":"alice"}', "user": "alice", "controller_mutation_rate": rate}
    return content | {"timestamp": moment(at), "effective_at": moment(at), "date": date(1970, 1, 2), "comment": None}


def honest():
    """Q = 5, so B = 55; from 4 s on Q = 10.

    60 are admitted at 55: -5. A topic is rejected 0.5 s later at -2.5; at 1 s one of 10 is admitted at 0, and one of 1
    rejected. At 6 s: 3 s at 5 and 2 s at 10 make 25 of -10 + 15 + 20, and an old client's 30 leave -5.
    """
    records = [
        request(0, 0, 60, api_version=STRICT),
        request(1, 500, 1, api_version=STRICT),
        request(2, 1000, 10, 1, api_version=STRICT),
        Stored("in", 0, 3, DAY + 1500, b"alice", b"no json"),
        request(4, 6000, 30, api_version=PERMISSIVE),
        request(5, 6000, 7, api_version=STRICT, validate_only=True),
    ]
    decided = [
        decision(0, 0, 55, -5, 0),
        decision(1, 500, -2.5, -2.5, 89),
        decision(2, 1000, 0, -10, 0, 89),
        decision(4, 6000, 25, -5, 0),
        decision(5, 6000, -5, -5, 0),
    ]
    dead, dead_row = letter(3, 1500)
    decisions, rows = [list(column) for column in zip(*decided, strict=True)]
    changes = ((0, 0, 5.0), (1, 4000, 10.0))
    return Evidence(
        records,
        [quota(*change) for change in changes],
        [*decisions, replace(decisions[1], offset=9)],  # a copy, as after a kill
        [dead],
        list(decisions),
        [dead],
        rows,
        [dead_row],
        [quota_row(*change) for change in changes],
    )


def test_a_correct_run_passes():
    """There are one copy, one dead letter, two rejected topics, and no errors."""
    outcome = verdict.verdict_on(honest())
    assert (outcome.wrong, outcome.requests, outcome.decisions, outcome.dead_letters) == ({}, 6, 5, 1)
    assert (outcome.copies, outcome.rejected, outcome.quota_changes) == (1, 2, 2)


def changed(stored, **fields):
    return replace(stored, value=json.dumps(json.loads(stored.value) | fields).encode())


def without(name, number):
    return lambda honest: replace(
        honest, **{name: [*getattr(honest, name)[:number], *getattr(honest, name)[number + 1 :]]}
    )


def instead(name, number, change):
    def _instead(honest):
        items = list(getattr(honest, name))
        items[number] = change(items[number])
        return replace(honest, **{name: items})

    return _instead


def also(name, item):
    return lambda honest: replace(honest, **{name: [*getattr(honest, name), item]})


def refilled(honest):
    """Return the evidence of a restart that forgot the bucket before the third request, as in both runs."""
    wrong, row = decision(2, 1000, 55, 44, 0, 0)
    rows = [row if stored["decision_id"] == row["decision_id"] else stored for stored in honest.decision_rows]
    decisions, others = [
        [wrong if answer.offset == 2 else answer for answer in answers]
        for answers in (honest.decisions, honest.undisturbed_decisions)
    ]
    return replace(honest, decisions=decisions, undisturbed_decisions=others, decision_rows=rows)


MUTANTS = {
    "a decision is missing": (
        without("decisions", 0),
        {verdict.LOST, verdict.UNLIKE_UNDISTURBED, verdict.UNLIKE_IN_DELTA},
    ),
    "a copy that differs": (instead("decisions", 5, lambda copy: changed(copy, tokens=-2.4)), {verdict.COPIES_DIFFER}),
    "a copy under another key": (
        instead("decisions", 5, lambda copy: replace(copy, key=b"bob")),
        {verdict.COPIES_DIFFER},
    ),
    "a dead letter for what is decided": (
        also("dead_letters", letter(4, 6000)[0]),
        {verdict.UNASKED, verdict.UNLIKE_UNDISTURBED, verdict.NOT_IN_DELTA},
    ),
    "an answer to nothing": (
        also("decisions", decision(6, 6000, -5, -5, 0)[0]),
        {verdict.UNASKED, verdict.UNLIKE_UNDISTURBED, verdict.NOT_IN_DELTA, verdict.TOKENS_WRONG},
    ),
    "another one undisturbed": (
        instead("undisturbed_decisions", 0, lambda row: changed(row, request_id="other")),
        {verdict.UNLIKE_UNDISTURBED},
    ),
    "one more undisturbed": (
        also("undisturbed_decisions", decision(6, 6000, -5, -5, 0)[0]),
        {verdict.UNLIKE_UNDISTURBED},
    ),
    "a bucket that was refilled": (refilled, {verdict.REFILLED}),
    "a bucket that was charged twice": (
        instead("requests", 0, lambda request: replace(request, value=request_json(55))),
        {verdict.TOKENS_WRONG},
    ),
    "a quota change that came too late": (
        instead("quotas", 1, lambda change: replace(change, timestamp=DAY + 3000)),
        {verdict.TOKENS_WRONG, verdict.UNLIKE_IN_DELTA},
    ),
    "a decision that Delta has not": (without("decision_rows", 3), {verdict.NOT_IN_DELTA}),
    "a dead letter that Delta has not": (without("dead_letter_rows", 0), {verdict.NOT_IN_DELTA}),
    "a quota change that Delta has not": (without("quota_rows", 0), {verdict.NOT_IN_DELTA}),
    "a decision that Delta has twice": (also("decision_rows", honest().decision_rows[2]), {verdict.TWICE_IN_DELTA}),
    "a decision that Delta has otherwise": (
        instead("decision_rows", 2, lambda row: row | {"tokens": -9.0}),
        {verdict.UNLIKE_IN_DELTA},
    ),
    "a row of no decision": (also("decision_rows", decision(6, 6000, -5, -5, 0)[1]), {verdict.UNLIKE_IN_DELTA}),
}


@pytest.mark.parametrize("mutant", MUTANTS)
def test_faults_are_detected(mutant):
    """Each kind of error is reported under its name."""
    change, expected = MUTANTS[mutant]
    assert verdict.verdict_on(change(honest())).wrong.keys() == expected


def test_every_check_can_fail():
    """None of them is there for show."""
    assert set().union(*(expected for _, expected in MUTANTS.values())) == set(verdict.CHECKS)


def acknowledged(evidence):
    return [(sent.topic, *sent.position, sent.key, sent.value) for sent in evidence.requests + evidence.quotas]


def with_ids(evidence):
    requests = [sent if sent.offset == 3 else changed(sent, request_id=f"r{sent.offset}") for sent in evidence.requests]
    return replace(evidence, requests=requests)


ABSENT = ("in", 0, 6, b"k", b"v")
LOST = {verdict.ACKNOWLEDGED_LOST: 1}


@pytest.mark.parametrize(
    ("changed_to", "wrong"),
    [
        (lambda records: records, {}),
        (lambda records: [*records, ABSENT], LOST),
        (lambda records: [*records[:3], (*records[3][:4], b"{}"), *records[4:]], LOST),  # a request
        (lambda records: [*records[:-1], (*records[-1][:4], b"{}")], LOST),  # a quota
        # without an offset, a record is searched in its partition; that of the others may be equal
        (lambda records: [*records[:3], unplaced(records[3]), *records[4:]], {}),
        (lambda records: [*records, unplaced(records[3])], LOST),
        (lambda records: [*records, unplaced(ABSENT)], LOST),
        (lambda records: [*records, ("in", 1, None, *records[3][3:])], LOST),
    ],
)
def test_an_acknowledged_record_missing_from_a_new_leader_is_lost(changed_to, wrong):
    evidence = with_ids(honest())
    assert verdict.verdict_on(evidence, changed_to(acknowledged(evidence))).wrong == wrong


def unplaced(record):
    return (*record[:2], None, *record[3:])


def test_a_request_duplicated_by_a_retry_is_reported():
    evidence = with_ids(honest())
    twice = replace(evidence, requests=[*evidence.requests[:-1], changed(evidence.requests[-1], request_id="r0")])
    assert verdict.verdict_on(twice, acknowledged(twice)).wrong == {verdict.REQUESTED_TWICE: 1}


def test_unchecked_logs_are_a_failure():
    with pytest.raises(AssertionError, match="acknowledged no record"):
        verdict.verdict_on(with_ids(honest()), [])


REQUESTED = frozenset({(0, 0), (0, 1)})


@pytest.mark.parametrize(
    ("step", "written"),
    [
        (Step.IDLE, {"batch": None}),
        (Step.BEFORE_OFFSETS, {"batch": None, "waiting": True}),
        (Step.BEFORE_OFFSETS, {"committed": True, "waiting": True}),
        (Step.IDLE, {"committed": True, "answered": REQUESTED, "states": 2}),
        (Step.OFFSETS, {"waiting": True}),
        (Step.OFFSETS, {"answered": frozenset({(1, 7)})}),
        (Step.SOME_DECIDED, {"answered": frozenset({(0, 1), (1, 7)})}),
        (Step.ALL_DECIDED, {"answered": REQUESTED}),
        (Step.STATE_IN_PART, {"states": 1, "answered": REQUESTED}),
        (Step.STATE, {"states": 2, "answered": frozenset({(0, 0)})}),
        (Step.BEFORE_COMMIT, {"states": 2, "answered": REQUESTED}),
    ],
)
def test_a_step_is_identified_by_the_files_written(step, written):
    """The batch has two requests, and the state two partitions."""
    nothing = Written(
        3, committed=False, requested=REQUESTED, answered=frozenset(), states=0, partitions=2, waiting=False
    )
    assert enforce_step(replace(nothing, **written)) is step
