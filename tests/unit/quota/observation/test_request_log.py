"""Lines of a request log."""

from zoneinfo import ZoneInfo

import pytest

from quota.errors import BadRecord
from quota.observation.layouts import LogTime
from quota.observation.request_log import mutation_lines, read_line
from quota.records.request import Operation
from tests.support.request_log import NO_ID, created, deleted, fetched, grown, line

AT = "2026-11-22 17:39:55,315"
AT_MS = 1_795_369_195_315


def read(text):
    return read_line(text, LogTime(ZoneInfo("UTC")))


def test_a_line_has_the_client_the_time_and_the_clusters_answer():
    entry = read(created(AT, ("a", 3), ("b", 4), errors=[0, 89], throttle_ms=700, client_id="app", correlation_id=9))
    assert entry.operation is Operation.CREATE_TOPICS
    assert (entry.principal, entry.client_id, entry.correlation_id, entry.api_version) == ("User:alice", "app", 9, 7)
    assert (entry.received_at, entry.completed_at) == (AT_MS - 50, AT_MS)
    assert entry.throttle_time_ms == 700
    assert [(topic.name, topic.count, topic.error_code, topic.partitions) for topic in entry.topics] == [
        ("a", 3, 0, 3),
        ("b", 4, 89, -1),
    ]
    assert not entry.forwarded


def test_responses_are_matched_by_name_in_any_order():
    requested = [{"name": name, "numPartitions": 1} for name in ("a", "b")]
    answered = [{"name": "b", "errorCode": 36}, {"name": "a", "errorCode": 0}]
    entry = read(line(AT, 19, {"topics": requested}, {"topics": answered}))
    assert [(topic.name, topic.error_code) for topic in entry.topics] == [("a", 0), ("b", 36)]


def test_partitions_with_assigned_brokers_are_counted():
    by_hand = [{"partitionIndex": number, "brokerIds": [1]} for number in range(3)]
    requested = [{"name": "a", "numPartitions": -1, "assignments": by_hand}]
    (topic,) = read(line(AT, 19, {"topics": requested}, {"topics": [{"name": "a", "errorCode": 0}]})).topics
    assert (topic.count, topic.assigned) == (-1, 3)


def test_a_deletion_by_id_has_the_name_in_the_response_if_any():
    requested = [{"name": None, "topicId": "known"}, {"name": None, "topicId": "hidden"}]
    answered = [{"name": "a", "topicId": "known", "errorCode": 0}, {"name": None, "topicId": "hidden", "errorCode": 29}]
    topics = read(line(AT, 20, {"topics": requested}, {"responses": answered})).topics
    assert [(topic.name, topic.topic_id, topic.error_code) for topic in topics] == [
        ("a", "known", 0),
        (None, "hidden", 29),
    ]


def test_a_deletion_by_name_is_read_in_the_old_and_in_the_new_form():
    answered = [{"name": "b", "errorCode": 3}, {"name": "a", "errorCode": 0}]
    old = line(AT, 20, {"topicNames": ["a", "b"]}, {"responses": answered}, api_version=4)
    assert [(topic.name, topic.topic_id, topic.error_code) for topic in read(old).topics] == [
        ("a", None, 0),
        ("b", None, 3),
    ]
    new = deleted(AT, "a")
    assert NO_ID.encode() in new
    assert [(topic.name, topic.topic_id) for topic in read(new).topics] == [("a", "id-of-a")]


def test_a_topic_without_a_response_is_not_mistaken_for_done():
    lost = created(AT, ("a", 1))
    begin, end = lost.index(b'"response":') + len(b'"response":'), lost.index(b',"connection"')
    assert [topic.error_code for topic in read(lost[:begin] + b"null" + lost[end:]).topics] == [-1]


def test_only_lines_of_mutations_are_found_in_a_block_also_the_last_one_without_an_end():
    lines = [fetched(AT), created(AT, ("a", 1)), fetched(AT), grown(AT, "a", 2), deleted(AT, "a")]
    block = b"".join(lines).rstrip()
    assert [block[begin:end] + b"\n" for begin, end in mutation_lines(block)] == [lines[1], lines[3], lines[4]]
    assert list(mutation_lines(b"".join([lines[0]] * 3))) == []


def test_a_line_that_only_names_the_api_is_ignored():
    """As the name of a client or of a topic, or in a line of another logger."""
    lines = [
        created(AT, ("a", 1), client_id="CREATE_TOPICS"),
        line(AT, 3, {"topics": None}, {"topics": None}, client_id="CREATE_TOPICS"),
        line(AT, 1, {"topics": [{"name": 'CREATE_TOPICS"'}]}, {}),
        b'[2026-11-22 17:39:55,315] INFO sent "DELETE_TOPICS" (app)\n',
    ]
    entry, *others = map(read, lines)
    assert (entry.client_id, others) == ("CREATE_TOPICS", [None, None, None])


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (created(AT, ("a", 1))[:400], "a truncated line, or not JSON"),
        (b"DEBUG " + created(AT, ("a", 1)).partition(b"DEBUG ")[2], "expected a date and a time before the message"),
        (created(AT, ("a", 1)).replace(b"Completed request:", b""), "another layout: expected the message to begin"),
        (created(AT, ("a", 1)).replace(b"alice", b"al\xffice"), "a truncated line, or not JSON: .* byte 0xff"),
        (created(AT, ("a", 1)).replace(b"50.183", b"1e300"), "request log of another version: .*totalTimeMs"),
        (created(AT, ("a", 1)).replace(b'"principal"', b'"who"'), "request log of another version.*`principal`"),
    ],
)
def test_an_unreadable_line_is_an_error_with_its_reason(text, error):
    with pytest.raises(BadRecord, match=error):
        read(text)
