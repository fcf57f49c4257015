"""Messages of the APIs that a gateway reads: round trips, heads, and arbitrary bytes."""

import pytest

from quota.wire.primitives import Malformed, TooManyElements
from tests.support.wire.fuzz import fuzz


def test_damaged_frames_are_read_or_malformed(jars):
    """Requests and responses with their headers; 100,000 of them by `make conformance`."""
    fuzzed = fuzz(jars, seed=11, count=4000)

    assert fuzzed.frames == 4000
    assert min(fuzzed.read, fuzzed.rejected, fuzzed.header_alone) > 200


def metadata(topics):
    return {
        "throttleTimeMs": 5,
        "brokers": [{"nodeId": 1, "host": "broker", "port": 9092, "rack": None, "_tags": [(7, b"x")]}],
        "clusterId": "c",
        "controllerId": 1,
        "topics": [{"errorCode": 0, "name": f"topic-{number}"} for number in range(topics)],
    }


@pytest.mark.parametrize("version", range(14))
def test_the_head_of_a_response_is_replaced(protocol, version):
    """The brokers come before the topics, of which no byte is read."""
    codec = protocol.response(3, version)
    message = metadata(300)
    if version < 9:
        del message["brokers"][0]["_tags"]
    data = codec.write(message)
    head, after = codec.read_head(b"\xff" + data, "brokers", at=1)
    assert list(head) == (["throttleTimeMs", "brokers"] if version >= 3 else ["brokers"])
    assert data[: after - 1] == codec.write_head(head, "brokers")

    head["brokers"][0]["host"] = "gateway"
    moved = codec.read(codec.write_head(head, "brokers") + data[after - 1 :])
    assert moved.pop("brokers")[0]["host"] == "gateway"
    assert moved == {name: value for name, value in codec.read(data).items() if name != "brokers"}


def test_the_head_is_read_although_the_rest_is_malformed(protocol):
    codec = protocol.response(3, 13)
    data = codec.write(metadata(1))
    head, after = codec.read_head(data, "controllerId")
    assert head["clusterId"] == "c"
    assert codec.read_head(data[:after] + b"\xff" * 9, "controllerId") == (head, after)
    with pytest.raises(Malformed, match="ends early"):
        codec.read_head(data[: after - 1], "controllerId")


def test_a_message_with_more_elements_than_allowed_is_told_from_a_damaged_one(protocol):
    codec = protocol.request(20, 5)
    data = codec.write({"topicNames": ["a", "b"]})
    assert codec.read(data, max_elements=2)["topicNames"] == ["a", "b"]
    with pytest.raises(TooManyElements, match="more elements than allowed"):
        codec.read(data, max_elements=1)


@pytest.mark.parametrize(
    ("key", "version", "message", "first"),
    [
        (3, 1, {"topics": [{"name": "a"}, {"name": "b"}], "allowAutoTopicCreation": True}, {"name": "a"}),
        (3, 12, {"topics": [{"topicId": b"i" * 16, "name": None}]}, {"topicId": b"i" * 16, "name": None}),
        (19, 7, {"topics": [{"name": "a", "numPartitions": 3}]}, {"name": "a"}),
        (20, 1, {"topicNames": ["a", "b"]}, {"name": "a"}),
        (20, 6, {"topics": [{"name": "a"}, {"name": "b"}]}, {"name": "a", "topicId": bytes(16)}),
        (37, 3, {"topics": [{"name": "a", "count": 2, "assignments": None}]}, {"name": "a"}),
    ],
)
def test_the_first_topic_of_a_request_is_read_from_its_beginning(protocol, key, version, message, first):
    """The rest of the request need not be there."""
    codec = protocol.request(key, version)
    assert codec.read_first(codec.write(message)[:24], 0, {"name", "topicId"}) == first
    for none in (b"\0", b"\1") if codec.flexible else (bytes(4), b"\xff" * 4):
        with pytest.raises(Malformed, match="has no topic"):
            codec.read_first(none, 0, {"name", "topicId"})


def test_a_head_ends_with_a_field_of_the_version_that_has_no_tag(protocol):
    codec = protocol.response(18, 3)
    for name in "supportedFeatures", "none":
        with pytest.raises(ValueError, match=f"ApiVersionsResponse v3 has no field '{name}'"):
            codec.read_head(b"", name)
        with pytest.raises(ValueError, match=f"ApiVersionsResponse v3 has no field '{name}'"):
            codec.write_head({}, name)
