"""From records of the topics to rows of the tables, on static frames."""

import json
from datetime import UTC, date, datetime, timedelta

import pytest
from chispa import assert_df_equality

from jobs.audit.rows import (
    dead_letter_rows,
    decision_rows,
    foreign_rows,
    quota_change_rows,
    read_quota_changes,
    skipped_quota_rows,
)
from schemas import dead_letters, decisions, quota_changes
from tests.support.factories import DECISION_RECORD as DECISION
from tests.support.rows import frame, kafka_rows

DAY = 24 * 3600 * 1000
SOURCE = DECISION["source"]
NOON = datetime(1970, 1, 2, 12, tzinfo=UTC)


def records(spark, *values):
    encoded = [value if isinstance(value, bytes | None) else json.dumps(value).encode() for value in values]
    return frame(spark, kafka_rows(encoded, timestamps=[DAY + DAY // 2 + 5] * len(values), topic="topic"))


def test_a_decision_becomes_a_typed_row(spark):
    expected = DECISION | {
        "date": date(1970, 1, 2),
        "timestamp": NOON,
        "decided_at": NOON.replace(microsecond=5000),
        "retry_at": NOON.replace(second=1),
        "quota_entity": '{"user":"alice"}',
    }
    rows = spark.createDataFrame([expected], decisions.TABLE)
    assert_df_equality(decision_rows(records(spark, DECISION)), rows, ignore_metadata=True)


def test_a_dead_letter_becomes_a_typed_row(spark):
    letter = {"error": "user: expected str", "value": "{", "timestamp": DAY + DAY // 2, "source": SOURCE}
    rows = spark.createDataFrame([letter | {"date": date(1970, 1, 2), "timestamp": NOON}], dead_letters.TABLE)
    assert_df_equality(dead_letter_rows(records(spark, letter)), rows, ignore_metadata=True)


def test_a_dead_letter_whose_record_has_no_time_has_its_own(spark):
    letter = {"error": "timestamp: its producer's own", "value": "{", "timestamp": None, "source": SOURCE}
    (row,) = dead_letter_rows(records(spark, letter)).collect()
    assert (row.date, row.error) == (date(1970, 1, 2), letter["error"])
    assert foreign_rows(records(spark, letter), dead_letters.RECORD).collect() == []
    (stray,) = foreign_rows(records(spark, {"timestamp": None, "source": SOURCE}), dead_letters.RECORD).collect()
    assert stray.error == "value: not a record of topic"


def test_a_quota_that_its_producer_has_stamped_is_a_dead_letter_of_today(spark):
    quota = json.dumps({"entity": {"user": "alice"}, "controller_mutation_rate": 5}).encode()
    changes = read_quota_changes(frame(spark, kafka_rows([quota], timestamps=[None])))
    assert quota_change_rows(changes).collect() == []
    (row,) = skipped_quota_rows(changes).collect()
    assert row.error.startswith("timestamp: its producer's own")
    assert datetime.now(UTC) - row.timestamp.astimezone(UTC) < timedelta(hours=1)


@pytest.mark.parametrize(
    "stray",
    [
        None,
        b"garbage",
        b"\xff",
        {},
        {"decision_id": "x"},
        DECISION | {"source": None},
        DECISION | {"source": {}},
        DECISION | {"timestamp": None},
        DECISION | {"timestamp": 2**63 - 1},
        DECISION | {"timestamp": -1},
        DECISION | {"retry_at": 2**63 - 1},
    ],
)
def test_what_is_no_decision_is_a_dead_letter_and_only_that(spark, stray):
    """Neither lost, nor in both tables, nor the end of the query."""
    found = records(spark, stray)
    kept = decision_rows(found).collect()
    (dead,) = foreign_rows(found, decisions.RECORD).collect()
    assert kept == []
    assert (dead.error, tuple(dead.source), dead.date) == (
        "value: not a record of topic",
        ("topic", 0, 0),
        date(1970, 1, 2),
    )


def test_what_is_a_decision_is_no_stray(spark):
    assert foreign_rows(records(spark, DECISION), decisions.RECORD).collect() == []


def test_a_change_of_a_quota_becomes_a_typed_row_and_a_bad_one_a_dead_letter(spark):
    change = {
        "entity": {"user": None, "client-id": "app"},
        "controller_mutation_rate": 5,
        "controller_mutation_burst": 9,
        "max_debt_ms": 60_000,
        "shadow": True,
        "effective_at": 2 * DAY,
        "altered_by": "ann",
    }
    changes = read_quota_changes(records(spark, change, change | {"controller_mutation_rate": 0}))
    row = {
        "date": date(1970, 1, 2),
        "source": {"topic": "topic", "partition": 0, "offset": 0},
        "timestamp": NOON.replace(microsecond=5000),
        "effective_at": datetime(1970, 1, 3, tzinfo=UTC),
        "entity": '{"user":null,"client-id":"app"}',
        "user": "<default>",
        "client_id": "app",
        "kind": "quota",
        "controller_mutation_rate": 5.0,
        "controller_mutation_burst": 9.0,
        "max_debt_ms": 60_000,
        "shadow": True,
        "bucket": None,
        "altered_by": "ann",
        "comment": None,
    }
    expected = spark.createDataFrame([row], quota_changes.TABLE)
    assert_df_equality(quota_change_rows(changes), expected, ignore_metadata=True)
    (bad,) = skipped_quota_rows(changes).collect()
    assert (bad.error, bad.source.offset) == ("controller_mutation_rate: expected float > 0.0 (value: 0)", 1)


def test_a_reset_and_a_cancelled_change_have_rows_of_their_own(spark):
    """A scheduled change is taken back by a record that repeats it."""
    reset = {"bucket": {"user": "alice", "client-id": "app"}, "comment": "one huge deletion"}
    cancel = {"entity": {"user": "alice"}, "controller_mutation_rate": 5, "effective_at": 2 * DAY, "cancelled": True}
    found = quota_change_rows(read_quota_changes(records(spark, reset, cancel))).orderBy("source.offset").collect()
    names = ("kind", "entity", "bucket", "user", "client_id", "comment")
    assert [tuple(row[name] for name in names) for row in found] == [
        ("bucket_reset", None, '{"user":"alice","client-id":"app"}', "alice", "app", "one huge deletion"),
        ("cancel", '{"user":"alice"}', None, "alice", None, None),
    ]
    assert found[1].effective_at.timestamp() * 1000 == 2 * DAY
