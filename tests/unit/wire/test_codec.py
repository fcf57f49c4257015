"""Messages of the APIs that a gateway reads: round trips, heads, and arbitrary bytes."""

import pytest

from quota.wire.primitives import Malformed, TooManyElements
from tests.support.wire.fuzz import fuzz


def test_damaged_frames_are_read_or_malformed(jars):
    """Requests and responses with their headers; 100,000 of them by `make conformance`."""
    fuzzed = fuzz(jars, seed=11, count=4000)

    assert fuzzed.frames == 4000
    assert min(fuzzed.read, fuzzed.refused, fuzzed.header_alone) > 200


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


def described(replicas, version=12):
    """Return a Metadata response of 50 topics with 3,000 partitions each."""
    partition = {"replicaNodes": [1] * replicas, "isrNodes": [1] * replicas, "offlineReplicas": [2]}
    partition |= {"_tags": [(9, b"")]} if version > 8 else {}
    partitions = [{"errorCode": 0, "partitionIndex": number, **partition} for number in range(3000)]
    named = [{"name": f"t{number}", "topicId": bytes(16), "partitions": partitions} for number in range(50)]
    return {"brokers": [], "topics": named}


def test_partitions_are_counted_without_being_read(protocol):
    """150,000 partitions have 1,200,000 elements; of them only the tags are read, and then what comes after them."""
    codec = protocol.response(3, 12)
    data = codec.write(described(3))
    message, _ = codec.read_head(data, None, 0, 200_000, counted="partitions")
    assert [topic["partitions"] for topic in message["topics"]] == [3000] * 50
    assert [topic["topicAuthorizedOperations"] for topic in message["topics"]] == [-2147483648] * 50
    with pytest.raises(TooManyElements, match="more elements than allowed"):
        codec.read(data, max_elements=1_000_000)


@pytest.mark.parametrize("version", range(14))
def test_partitions_are_counted_in_all_versions(protocol, version):
    """They may be more than the message may have elements."""
    codec = protocol.response(3, version)
    topics = [{"name": "a", "partitions": [{"replicaNodes": [1, 2]}] * 9}, {"name": "b", "partitions": []}]
    data = codec.write({"brokers": [], "topics": topics})
    message, end = codec.read_head(data, None, 0, 2, counted="partitions")
    assert [(topic["name"], topic["partitions"]) for topic in message["topics"]] == [("a", 9), ("b", 0)]
    assert end == len(data)


@pytest.mark.parametrize(("version", "end"), [(12, 40), (12, 100), (12, 5000), (1, 5000), (1, -1)])
def test_counted_partitions_must_be_there(protocol, version, end):
    """In version 1 the last bytes of a message are the replicas of its last partition."""
    codec = protocol.response(3, version)
    with pytest.raises(Malformed):
        codec.read_head(codec.write(described(1, version))[:end], None, 0, 200_000, counted="partitions")


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
