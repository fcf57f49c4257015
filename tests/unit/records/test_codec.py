"""The errors of invalid records, at any depth."""

import pytest

from quota.errors import BadRecord
from quota.records.decision import read_decision
from quota.records.result import read_result


def test_an_unknown_value_below_the_top_level_is_an_error_like_any_other():
    with pytest.raises(BadRecord) as raised:
        read_decision(b'{"shadow": {"outcome": "DELAYED"}}')
    assert str(raised.value) == "shadow.outcome: invalid enum value 'DELAYED' (value: \"DELAYED\")"


def test_an_error_in_an_element_of_a_map_shows_the_record():
    with pytest.raises(BadRecord) as raised:
        read_decision(b'{"more_tags": {"a.b": 1}}')
    assert str(raised.value) == 'more_tags[...]: expected str, got int (value: {"more_tags": {"a.b": 1}})'


def test_a_null_in_each_of_many_elements_counts_as_absent():
    topics = b",".join([b'{"name": "t", "error_code": null, "error": null}'] * 1000)
    result = read_result(
        b'{"decision_id": "d", "request_id": "r", "user": "u", "client_id": "c", "operation": "DELETE_TOPICS",'
        b'"validate_only": false, "timestamp": 1, "source": {"topic": "t", "partition": 0, "offset": 1},'
        b'"topics": [' + topics + b"]}"
    )
    assert {(topic.error_code, topic.error) for topic in result.topics} == {(0, "NONE")}
    assert len(result.topics) == 1000
