"""Records of the topics become rows of the tables."""

import json
from datetime import UTC, date, datetime, timedelta

import pytest

from jobs.audit.decisions import to_decisions
from jobs.audit.quota_changes import record_to_row, row_to_record
from jobs.audit.rows import dead_letter_rows, decision_rows, quota_change_rows
from quota.records.decision import TopicDecision
from quota.records.quota_log import read_quota_log_record
from schemas import tables
from tests.support.factories import DECISION_RECORD as DECISION
from tests.support.malformed import all_malformed
from tests.support.rows import kafka_rows, record_batch

DAY = 24 * 3600 * 1000
SOURCE = DECISION["source"]
NOON = datetime(1970, 1, 2, 12, tzinfo=UTC)


def encoded(value):
    return value if isinstance(value, bytes | None) else json.dumps(value).encode()


def records(*values):
    return record_batch(
        kafka_rows(list(map(encoded, values)), timestamps=[DAY + DAY // 2 + 5] * len(values), topic="topic")
    )


def both(rows):
    """Return the topic's own rows and the dead letters, as dicts."""
    return rows.own.to_pylist(), rows.dead_letters.to_pylist()


def test_a_decision_becomes_a_typed_row():
    (row,), foreign = both(decision_rows(records(DECISION)))
    topic = DECISION["topics"][0] | dict.fromkeys(TopicDecision.__struct_fields__[5:])
    assert row == DECISION | {
        "date": date(1970, 1, 2),
        "timestamp": NOON,
        "decided_at": NOON.replace(microsecond=5000),
        "retry_at": NOON.replace(second=1),
        "expires_at": None,
        "quota_entity": '{"user":"alice"}',
        "more_tags": [("group", "g")],
        "topics": [topic],
        "apply": False,
        "repeats": None,
        "observed": None,
        "bucket_before": None,
        "withdraws": None,
        "max_request_mutations": None,
        "unrecorded": 0,
    }
    assert foreign == []


def test_all_fields_of_a_decision_are_in_its_row():
    """This includes objects and lists: configs, assignments, and the decision of a repeat."""
    details = {
        "count": 3,
        "replication_factor": 2,
        "assignments": [[1, 2], [3]],
        "configs": {"a": "b", "c": "d"},
        "reason": "EXHAUSTED",
    }
    more = {
        "topics": [DECISION["topics"][0] | details],
        "expires_at": DAY,
        "apply": True,
        "repeats": {"decision_id": "t-0-0", "topics": 1},
        "observed": {"at": 86_399_000, "error_codes": [89], "throttle_time_ms": 7, "took_ms": 50, "assumed": [0]},
        "bucket_before": {"tokens": 1.5, "updated_at": None, "quota": 5.0, "burst": 1.5, "reset_at": DAY},
        "withdraws": {"decision_id": "t-0-0", "mutations": 1.5},
        "quota": None,
        "unrecorded": 12,
        "unknown to this version": 1,
    }
    ((row,), _) = both(decision_rows(records(DECISION | more)))
    (topic,) = row["topics"]
    assert topic == DECISION["topics"][0] | details | {"configs": [("a", "b"), ("c", "d")]}
    assert row["expires_at"] == datetime(1970, 1, 2, tzinfo=UTC)
    assert (row["observed"], row["withdraws"]) == (more["observed"], more["withdraws"])
    assert (row["apply"], row["repeats"], row["quota"]) == (True, {"decision_id": "t-0-0", "topics": 1}, None)
    assert row["unrecorded"] == 12


def test_of_malformed_records_each_is_a_row_of_one_table_and_each_stored_decision_can_be_read():
    malformed = all_malformed()
    tables = decision_rows(records(*malformed))
    assert tables.own.num_rows + tables.dead_letters.num_rows == len(malformed)
    assert {decision.operation.value for decision in to_decisions(tables.own)} <= {
        "CREATE_TOPICS",
        "CREATE_PARTITIONS",
        "DELETE_TOPICS",
    }
    for rows_of in (dead_letter_rows, quota_change_rows):
        rows, letters = both(rows_of(records(*malformed)))
        assert len(rows) + len(letters) == len(malformed)


def test_a_dead_letter_becomes_a_typed_row():
    letter = {"error": "user: expected str", "value": "{", "timestamp": DAY + DAY // 2, "source": SOURCE}
    rows, foreign = both(dead_letter_rows(records(letter)))
    assert rows == [letter | {"date": date(1970, 1, 2), "timestamp": NOON}]
    assert foreign == []


def test_a_dead_letter_whose_record_has_no_time_has_its_own():
    letter = {"error": "timestamp: set by the producer", "value": "{", "timestamp": None, "source": SOURCE}
    ((row,), foreign) = both(dead_letter_rows(records(letter)))
    assert (row["date"], row["error"], foreign) == (date(1970, 1, 2), letter["error"], [])
    (rows, (foreign_record,)) = both(dead_letter_rows(records({"timestamp": None, "source": SOURCE})))
    assert (rows, foreign_record["error"]) == ([], "value: not a record of topic")


def test_a_quota_that_its_producer_has_stamped_is_a_dead_letter_of_today():
    quota = json.dumps({"entity": {"user": "alice"}, "controller_mutation_rate": 5}).encode()
    (rows, (row,)) = both(quota_change_rows(record_batch(kafka_rows([quota], timestamps=[None]))))
    assert rows == []
    assert row["error"].startswith("timestamp: set by the producer")
    assert datetime.now(UTC) - row["timestamp"] < timedelta(hours=1)


@pytest.mark.parametrize(
    "foreign_record",
    [
        None,
        b"garbage",
        b"\xff",
        b"[" * 5000,
        DECISION | {"source": SOURCE | {"partition": 2**31}},
        DECISION | {"timestamp": -1},
        DECISION | {"retry_at": 2**63 - 1},
        {name: value for name, value in DECISION.items() if name != "exempt"},
    ],
)
def test_an_invalid_decision_is_a_dead_letter_and_nothing_else(foreign_record):
    """It is neither lost nor in both tables, does not end the query, and affects no other record."""
    rows, letters = both(decision_rows(records(DECISION, foreign_record, DECISION)))
    assert [row["decision_id"] for row in rows] == [DECISION["decision_id"]] * 2
    (dead,) = letters
    assert (dead["error"], dead["source"], dead["date"]) == (
        "value: not a record of topic",
        {"topic": "topic", "partition": 0, "offset": 1},
        date(1970, 1, 2),
    )
    text = encoded(foreign_record)
    assert dead["value"] == ("/w==" if text == b"\xff" else text and text.decode())


def test_a_quota_change_becomes_a_typed_row_and_an_invalid_one_a_dead_letter():
    change = {
        "entity": {"user": None, "client-id": "app"},
        "controller_mutation_rate": 5,
        "controller_mutation_burst": 9,
        "max_debt_ms": 60_000,
        "shadow": True,
        "effective_at": 2 * DAY,
        "altered_by": "ann",
    }
    (row,), (bad,) = both(quota_change_rows(records(change, change | {"controller_mutation_rate": 0})))
    assert (row["date"], row["timestamp"]) == (date(1970, 1, 2), NOON.replace(microsecond=5000))
    assert (row["source"], row["effective_at"]) == (
        {"topic": "topic", "partition": 0, "offset": 0},
        datetime(1970, 1, 3, tzinfo=UTC),
    )
    assert (row["kind"], row["entity"]) == ("quota", '{"user":null,"client-id":"app"}')
    assert (row["user"], row["client_id"], row["altered_by"], row["comment"]) == ("<default>", "app", "ann", None)
    assert (row["controller_mutation_rate"], row["controller_mutation_burst"]) == (5.0, 9.0)
    assert (row["max_debt_ms"], row["shadow"], row["bucket"], row["callback"]) == (60_000, True, None, None)
    assert (bad["error"], bad["source"]["offset"]) == ("controller_mutation_rate: expected float > 0.0 (value: 0)", 1)


ALICE = {"entity": {"user": "alice"}}
GROUP = "quota.callbacks.groups.GroupQuotaCallback"
RECORDS = {
    "a quota": ALICE | {"controller_mutation_rate": 5.5, "altered_by": "ann", "comment": "why"},
    "one with all options": ALICE
    | {"controller_mutation_rate": 5, "controller_mutation_burst": 9, "max_debt_ms": 100, "shadow": True}
    | {"max_request_mutations": 7},
    "a part of one": ALICE | {"controller_mutation_rate": 5, "altered_configs": ["shadow"]},
    "none": ALICE | {"controller_mutation_rate": None},
    "the defaults": {"entity": {"user": None, "client-id": None}, "controller_mutation_rate": 5},
    "one for later": ALICE | {"controller_mutation_rate": 5, "effective_at": 2000},
    "a cancelled one": ALICE | {"controller_mutation_rate": 5, "effective_at": 2000, "cancelled": True},
    "one cancelled too late": ALICE | {"controller_mutation_rate": 5, "effective_at": 500, "cancelled": True},
    "a reset": {"bucket": {"user": "alice", "client-id": "app"}},
    "a callback": {"callback": {"class": GROUP, "configs": {"a": "b"}}, "altered_configs": ["a"]},
    "the settings' callback": {"callback": None},
    "a cluster": {"cluster": {"topics": {"t": [1, None]}}},
}


def row_of(fields, timestamp=1000):
    """The row of a record, with its timestamp; missing columns are null."""
    made = record_to_row(read_quota_log_record(json.dumps(fields).encode()), timestamp)
    return dict.fromkeys(tables.QUOTA_CHANGES.names) | {"timestamp": timestamp} | made


@pytest.mark.parametrize("fields", RECORDS.values(), ids=RECORDS.keys())
def test_each_record_is_read_as_it_was_written(fields):
    record = read_quota_log_record(json.dumps(fields).encode())
    read = row_to_record(row_of(fields))
    when = record.effective_at
    assert read.effective_at == (1000 if when is None else when if fields.get("cancelled") else max(1000, when))
    assert type(read) is type(record)
    stored = {name: getattr(read, name) for name in record.__struct_fields__ if name != "effective_at"}
    assert stored == {name: getattr(record, name) for name in record.__struct_fields__ if name != "effective_at"}


def test_an_unknown_kind_is_named():
    with pytest.raises(ValueError, match="a quota change of kind 'tariff'"):
        row_to_record(row_of(ALICE | {"controller_mutation_rate": 5}) | {"kind": "tariff"})
