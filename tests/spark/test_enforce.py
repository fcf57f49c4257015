"""The enforcing query: the transform that reads and resolves, the stateful stage's function, and the plan's shape."""

import json
import re

import msgspec
import pytest
from chispa import assert_df_equality

from jobs.enforce.query import enforce
from jobs.enforce.stages import EnforceConfig, answer_requests, resolve_requests
from quota.admission.policy import Policy
from quota.records.entity import QuotaEntity
from quota.records.quota_log import Window
from quota.records.record import BEGINNING
from schemas.buckets import RESOLVED
from schemas.kafka import RECORD
from tests.support.factories import FixedQuotas, request_json, timeline
from tests.support.replay.engine import State
from tests.support.rows import frame, kafka_rows, pack_request

ANSWERING = EnforceConfig(Window(100), Policy(), "decisions", "dead-letters")
RESOLUTION = f'[["alice",""],{{"quota":{{"controller_mutation_rate":5.0}},"since":{BEGINNING}}},{{"user":"alice"}}]'
UNLIMITED = '[["",""],null,null]'


def resolved(rows, error=None, resolution=RESOLUTION):
    return [pack_request(row, error, resolution) for row in rows]


def decide(rows, state, key='["alice",""]'):
    answers = answer_requests(ANSWERING, key, rows, state)
    return [(topic, record_key, json.loads(value)) for topic, record_key, value in answers]


def test_dead_letters_and_unlimited_requests_leave_no_state():
    rows = [
        *resolved(kafka_rows([b"\xff"]), error="value: not UTF-8 (byte 0xff at 0)", resolution=None),
        *resolved(kafka_rows([request_json(10**6)], first_offset=1), resolution=UNLIMITED),
    ]
    state = State()
    (letter, decided) = decide(rows, state, key="[0]")
    assert (decided[0], decided[2]["outcome"], decided[2]["quota"]) == ("decisions", "ADMITTED", None)
    assert (letter[0], letter[2]["value"]) == ("dead-letters", "/w==")
    assert not state.exists


def test_a_rejected_request_writes_no_state():
    state = State((-60.0, 0, 5.0, None, None, None, None))
    state.update = None  # calling it would fail
    ((_, _, rejected),) = decide(resolved(kafka_rows([request_json(1)], timestamps=[1000])), state)
    assert (rejected["outcome"], rejected["tokens"]) == ("REJECTED", -55.0)


def test_further_state_of_another_version_is_ignored():
    more = msgspec.msgpack.encode({"of_a_later_version": [1, 2], "remembered": {}})
    state = State((100.0, 0, 5.0, None, None, None, more))
    ((_, _, decided),) = decide(resolved(kafka_rows([request_json(1)], timestamps=[0])), state)
    assert decided["tokens"] == 99


def test_each_record_finds_its_bucket_and_quota_as_of_its_timestamp(spark):
    """A quota of 5 from 0 and of 7 from 100; an invalid request; a user without a quota."""
    quotas = FixedQuotas(timeline((QuotaEntity("alice"), 5.0, BEGINNING), (QuotaEntity("alice"), 7.0, 100)))
    early, late, bad, free = request_json(1), request_json(2), b"{", request_json(1, user="bob")
    rows = kafka_rows([early, late, bad, free], timestamps=[99, 100, 100, 100], partition=3)

    actual = resolve_requests(frame(spark, rows), quotas, Policy(1024))

    def resolution(rate, since):
        quota = f'{{"controller_mutation_rate":{rate}}}'
        return f'[["alice","",[]],{{"quota":{quota},"since":{since}}},{{"user":"alice"}},null,false,false,null]'

    unlimited = '[["","",[]],null,null,null,false,false,null]'
    no_object = "value: not JSON: Input data was truncated (value: {)"
    expected = spark.createDataFrame(
        [
            ('["alice",""]', pack_request(rows[0], None, resolution(5.0, BEGINNING))),
            ('["alice",""]', pack_request(rows[1], None, resolution(7.0, 100))),
            ("[3]", pack_request(rows[2], no_object, None)),
            ("[3]", pack_request(rows[3], None, unlimited)),
        ],
        RESOLVED,
    )
    assert_df_equality(actual, expected, ignore_row_order=True)


def test_a_record_without_a_broker_timestamp_is_a_dead_letter_and_affects_no_other(spark):
    """It goes through the same two columns, by no bucket; the requests around it are as they would be without it."""
    quotas = FixedQuotas(timeline((QuotaEntity("alice"), 5.0, BEGINNING)))
    rows = kafka_rows([request_json(1)] * 3, timestamps=[5, None, 6])
    resolved = resolve_requests(frame(spark, rows), quotas, Policy()).collect()
    requests = {
        msgspec.msgpack.decode(row.request)[2]: (row.bucket, msgspec.msgpack.decode(row.request)) for row in resolved
    }
    assert [requests[offset][0] for offset in range(3)] == ['["alice",""]', "[0]", '["alice",""]']
    assert requests[1][1][6].startswith("timestamp: set by the producer")
    assert [requests[offset][1][3] for offset in range(3)] == [5, None, 6]


@pytest.fixture(scope="module")
def plan(spark, tmp_path_factory):
    """The physical plan of a batch."""
    folder = tmp_path_factory.mktemp("plan")
    frame(spark, kafka_rows([request_json(1)])).write.parquet(str(folder / "in"))
    records = spark.readStream.schema(RECORD).parquet(str(folder / "in"))
    query = (
        enforce(records, FixedQuotas(timeline()), EnforceConfig(Window(), Policy(), "decisions", "dead-letters"))
        .writeStream.format("noop")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return query._jsq.explainInternal(False)  # noqa: SLF001 PySpark only prints it


def test_records_are_shuffled_once_and_joined_with_nothing(plan):
    """A further exchange costs a stage in each batch, and a join with a table of quotas 300 ms.

    See docs/decisions/programs/0003-the-enforcing-query.md.
    """
    assert len(re.findall(r"\bExchange\b", plan)) == 1
    assert not re.findall(r"\w*(?:Join|Union)\w*", plan)


def test_the_stateful_stage_has_two_input_columns_and_writes_the_columns_of_answers(plan):
    """A further input column costs about as much per key as the whole stage."""
    (stage,) = [line for line in plan.splitlines() if "FlatMapGroupsInPandasWithState" in line]
    assert re.search(
        r"KeyedStage\(bucket#\d+, request#\d+\)#\d+, \[bucket#\d+\], \[topic#\d+, key#\d+, value#\d+\], ", stage
    )
