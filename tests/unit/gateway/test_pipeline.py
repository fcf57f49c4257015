"""The requests on their way to a broker, and their answers."""

import struct

import pytest

from quota.gateway.context import ChannelError
from quota.gateway.pipeline import Pipeline
from quota.wire.headers import RequestHeader
from quota.wire.primitives import Malformed


@pytest.fixture
def pipeline(protocol):
    return Pipeline(protocol)


def header(number, key=3, version=12):
    return RequestHeader(key, version, number, None)


def sent(lists):
    return b"".join(lists)


def test_an_own_response_waits_for_earlier_ones(pipeline):
    pipeline.respond(header(1, 18, 0), {"errorCode": 35, "apiKeys": []})
    assert sent(pipeline.to_client) == struct.pack(">iihi", 10, 1, 35, 0)
    pipeline.to_client.clear()

    pipeline.expect(header(2))
    pipeline.respond(header(3, 18, 0), {"errorCode": 0, "apiKeys": []})
    pipeline.respond(header(4, 18, 0), {"errorCode": 0, "apiKeys": []})
    assert pipeline.to_client == []
    pipeline.take(struct.pack(">iib", 5, 2, 0))
    expected = struct.pack(">iib", 5, 2, 0) + struct.pack(">iihi", 10, 3, 0, 0) + struct.pack(">iihi", 10, 4, 0, 0)
    assert sent(pipeline.to_client) == expected
    assert pipeline.is_idle


def test_an_own_response_never_interrupts_a_forwarded_one(pipeline):
    """The own response may be ready before the first bytes of that one, or later."""
    pipeline.expect(header(1))
    pipeline.respond(header(2, 18, 0), {"errorCode": 0, "apiKeys": []})
    pipeline.take(struct.pack(">ii", 9, 1) + b"ab")
    pipeline.respond(header(3, 18, 0), {"errorCode": 0, "apiKeys": []})
    pipeline.take(b"cd")
    pipeline.take(b"e")
    own = [struct.pack(">iihi", 10, number, 0, 0) for number in (2, 3)]
    assert sent(pipeline.to_client) == struct.pack(">ii", 9, 1) + b"abcde" + b"".join(own)
    assert pipeline.is_idle


def test_a_forwarded_response_is_pending_until_its_end(pipeline):
    """The channel must not be closed before."""
    pipeline.expect(header(1))
    pipeline.take(struct.pack(">ii", 9, 1) + b"ab")
    assert not pipeline.is_idle
    pipeline.take(b"cde")
    assert pipeline.is_idle
    assert sent(pipeline.to_client) == struct.pack(">ii", 9, 1) + b"abcde"


def test_a_handler_gets_a_whole_response(pipeline):
    taken = []
    pipeline.expect(header(7), lambda request, frame: taken.append((request.correlation_id, frame)))
    for byte in struct.pack(">ii", 6, 7) + b"xy":
        pipeline.take(bytes([byte]))
    assert taken == [(7, struct.pack(">i", 7) + b"xy")]
    assert pipeline.to_client == []


def test_a_handler_may_expect_and_answer_more(pipeline):

    def handle(request, _frame):
        pipeline.send(request._replace(api_key=18, api_version=0), {"errorCode": 0, "apiKeys": []})

    pipeline.expect(header(1), handle)
    pipeline.expect(header(2))
    pipeline.take(struct.pack(">ii", 4, 1) + struct.pack(">ii", 4, 2))
    assert sent(pipeline.to_client) == struct.pack(">iihi", 10, 1, 0, 0) + struct.pack(">ii", 4, 2)


def test_a_response_that_is_read_whole_has_256_mb_at_most(pipeline):
    """It is rejected by its length; a forwarded response may have any."""
    pipeline.expect(header(1), lambda *_: None)
    with pytest.raises(ChannelError, match="the response to API 3 has 268435457 bytes"):
        pipeline.take(struct.pack(">ii", 256 * 1024 * 1024 + 1, 1))


@pytest.mark.parametrize("length", [-1, 0, 3])
def test_an_invalid_response_length_is_rejected(pipeline, length):
    pipeline.expect(header(1), lambda *_: None)
    with pytest.raises(ChannelError, match=f"a response of {length} bytes"):
        pipeline.take(struct.pack(">i", length))


def test_a_response_that_ends_within_its_header_is_malformed(pipeline):
    with pytest.raises(Malformed, match="truncated within its header"):
        pipeline.body_of(header(1), struct.pack(">i", 1))


def test_a_large_response_is_read(pipeline, protocol):
    """A topic of 20,000 partitions with three replicas has 140,000 elements."""
    partitions = [
        {"errorCode": 0, "partitionIndex": number, "leaderId": 1, "replicaNodes": [1, 2, 3], "isrNodes": [1, 2, 3]}
        for number in range(20_000)
    ]
    topic = {"errorCode": 0, "name": "t", "topicId": bytes(16), "partitions": partitions}
    body = protocol.response(3, 12).write({"brokers": [], "topics": [topic]})
    answer = pipeline.read_response(header(1), struct.pack(">ib", 1, 0) + body)
    assert len(answer["topics"][0]["partitions"]) == 20_000
