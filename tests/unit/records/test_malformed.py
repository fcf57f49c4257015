"""Malformed records of all types: each reader returns a record or raises BadRecord, and nothing else."""

import json

import pytest

from quota.errors import BadRecord
from quota.records import codec
from quota.records.dead_letter import read_dead_letter
from quota.records.decision import read_decision
from quota.records.quota_log import read_quota_log_record
from quota.records.request import read_request
from quota.records.result import read_result
from tests.support.factories import DECISION_RECORD
from tests.support.malformed import RECORDS, all_malformed

READERS = {
    "request": read_request,
    "decision": read_decision,
    "dead letter": read_dead_letter,
    "result": read_result,
    "quota": read_quota_log_record,
    "reset": read_quota_log_record,
    "callback": read_quota_log_record,
    "cluster": read_quota_log_record,
}


@pytest.mark.parametrize("kind", READERS)
def test_a_malformed_record_is_a_bad_record_and_what_is_read_can_be_written_again(kind):
    read = READERS[kind]
    read(json.dumps(RECORDS[kind]).encode())
    for value in all_malformed():
        try:
            record = read(value)
        except BadRecord:
            continue
        assert read(codec.encode(record)) == record


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"shadow": {**DECISION_RECORD["shadow"], "error_codes": [0, 89]}}, "shadow.error_codes: not one for each"),
        ({"observed": {"at": 5, "error_codes": []}}, "observed.error_codes: not one for each"),
        ({"repeats": {"decision_id": "t-0-0", "topics": 2}}, "repeats.topics: more than there are topics"),
        ({"quota": 0}, "quota: expected float > 0.0"),
        ({"throttle_time_ms": -1}, "throttle_time_ms: expected int >= 0"),
        ({"timestamp": 2**63}, "timestamp: "),
        ({"source": {"topic": "t", "partition": 0, "offset": 10**30}}, "source.offset: "),
    ],
)
def test_a_decision_that_contradicts_itself_is_a_bad_record(fields, error):
    with pytest.raises(BadRecord) as raised:
        read_decision(json.dumps(DECISION_RECORD | fields).encode())
    assert str(raised.value).removeprefix("value: ").startswith(error)
