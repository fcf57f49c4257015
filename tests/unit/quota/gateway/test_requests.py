"""Limits on what a client may send: sizes, numbers, and frames that are not valid requests."""

import struct

import pytest

from quota.gateway import pipeline
from quota.gateway.context import ChannelError
from quota.wire.message_codec import MAX_ELEMENTS
from quota.wire.primitives import Malformed
from tests.support.wire.requests import creation, deletion, growth
from tests.unit.quota.gateway.cluster import Cluster
from tests.unit.quota.gateway.play import take_frames

METADATA = {"topics": [], "allowAutoTopicCreation": False}


@pytest.mark.parametrize("length", [-1, 9, 2**31 - 1, int.from_bytes(b"GET ")])
def test_an_invalid_request_length_closes_the_connection(play, length):
    with pytest.raises(ChannelError, match=f"a request of {length} bytes; 10 to 1073741824 are allowed") as error:
        play().send_bytes(struct.pack(">i", length))
    assert error.value.reason == "size"


@pytest.mark.parametrize("header", [b"PROXY TCP4 203.0.113.7 ", b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c"])
def test_a_load_balancers_header_is_named_and_closes_the_connection(play, header):
    """At its fourth byte, although that could be the length of a request."""
    on = play()
    on.send_bytes(header[:3])
    with pytest.raises(ChannelError, match="a PROXY header, which the gateway does not take; have the load balancer"):
        on.send_bytes(header[3:4])


LARGE = 100_001
"""More topics than a request may have; the names below make it larger than 8 MiB."""
REQUESTS = {
    3: lambda names: {"topics": [{"name": name} for name in names]},
    19: lambda names: creation(*({"name": name, "numPartitions": 1, "replicationFactor": 1} for name in names)),
    20: lambda names: deletion(*names) | {"topicNames": names},
    37: lambda names: growth(**dict.fromkeys(names, 9)),
}
RESULTS = {3: "topics", 19: "topics", 20: "responses", 37: "results"}
VERSIONS = [(3, 0), (3, 1), (3, 8), (3, 13), (19, 2), (19, 7), (20, 1), (20, 5), (20, 6), (37, 0), (37, 3)]
SENTENCE = (
    "the mutation quota gateway takes requests of at most 8 MiB with 100,000 elements; nothing was changed, send "
    "several smaller requests"
)


@pytest.mark.parametrize(("key", "version"), VERSIONS)
@pytest.mark.parametrize("length", [1, 90], ids=["elements", "bytes"])
def test_a_request_above_the_limits_is_answered_in_its_version(play, key, version, length):
    """INVALID_REQUEST for its first topic, with a sentence if the version has one; the connection can be used."""
    on = play(Cluster(old=1))
    names = [f"{number:0{length}}" for number in range(LARGE)]
    message = REQUESTS[key](names)
    codec = on.protocol.request(key, version)
    if "topicNames" in message:
        del message["topics" if version < 6 else "topicNames"]
    frame = on.frame(key, version, message)
    assert (len(frame) > 8 * 1024 * 1024) == (length == 90)
    for at in range(0, len(frame), 300_000):
        on.send_bytes(frame[at : at + 300_000])
        assert on.channel.held_bytes <= 8 * 1024 * 1024
    (answer,) = on.answers()
    (result,) = answer[RESULTS[key]]
    assert (result["name"], result["errorCode"]) == (names[0], 42)
    assert result.get("errorMessage", SENTENCE) == SENTENCE
    assert ("errorMessage" in result) == (codec.name[:8] != "Metadata" and (key, version) != (20, 1))
    assert (on.seen, bytes(on.ports.broker), on.ports.requested) == ([], b"", [])
    assert on.call(3, 12, METADATA)["topics"] == []


def test_a_request_above_the_limits_is_answered_in_its_turn(play):
    """The response before it comes first, and a mutation's later requests wait for it."""
    on = play()
    on.send(3, 12, METADATA)
    frame = on.frame(20, 6, REQUESTS[20]([f"{number:090}" for number in range(LARGE)]))
    behind = on.frame(3, 12, METADATA)
    on.send_bytes(frame + behind)
    assert on.answers() == []
    on.serve()
    assert ["brokers" in answer for answer in on.answers()] == [True, False, True]


class TestOrdinary:
    """Large requests that a broker takes are below the limits."""

    @pytest.mark.parametrize("version", [5, 6])
    def test_a_deletion_of_20001_names(self, play, version):
        """None exists, after 401 lookups by 50 names, and 21 questions to the controller about 1,000."""
        names = [f"t{number}" for number in range(20_001)]
        message = {"topicNames": names, "timeoutMs": 1} if version == 5 else deletion(*names)
        on = play()
        on.send(20, version, message)
        on.serve(422)
        assert on.keys_seen() == [3] * 401 + [37] * 21
        (answer,) = on.answers()
        assert [result["errorCode"] for result in answer["responses"]] == [3] * 20_001

    def test_a_deletion_of_topics_with_very_many_partitions(self, play, monkeypatch):
        """Their metadata has more elements than a response that is decoded may have."""
        monkeypatch.setattr(pipeline, "_MAX_RESPONSE_ELEMENTS", MAX_ELEMENTS)
        on = play(Cluster(**{f"t{number}": 1500 for number in range(10)}))
        on.cluster.replicas = 3
        request = on.mutate(20, 6, deletion(*on.cluster.topics))
        assert sum(topic.partitions for topic in request.topics) * (1 + 3 + 3) > MAX_ELEMENTS
        assert (len(on.answers()[0]["responses"]), on.cluster.topics) == (10, {})


def test_a_head_that_is_incomplete_after_128_kib_is_malformed(play):
    head = struct.pack(">hhih", 0, 9, 1, -1) + b"\0" + b"\xff\xff\xff\xff\x07"
    with pytest.raises(Malformed):
        play().send_bytes((200_000).to_bytes(4) + head + bytes(180_000))


def test_a_request_that_ends_within_its_header_is_malformed(play):
    """The bytes of the next request are not taken for its own."""
    for key, version in ((19, 7), (1, 12)):
        with pytest.raises(Malformed):
            play().send_bytes(struct.pack(">ihhih", 20, key, version, 1, 500) + bytes(600))


def test_requests_wait_while_a_thousand_answers_are_outstanding(play):
    """The gateway remembers more bytes of a request than it has: their number is bounded."""
    on = play()
    on.send_bytes(b"".join(on.frame(3, 12, METADATA) for _ in range(2500)))
    assert on.channel.is_full
    assert len(take_frames(bytearray(on.ports.broker))) == 1000
    on.serve(10_000)
    assert len(on.answers()) == 2500
    assert not on.channel.is_full
    assert on.channel.held_bytes == 0


def test_the_gateways_own_outstanding_responses_are_bounded(play):
    """Those that wait for the broker's count, too."""
    on = play()
    on.send(3, 12, METADATA)
    unknown = struct.pack(">ihhih", 14, 18, 999, 2, -1) + b"\0\x01\x01\0"
    on.send_bytes(unknown * 5000)
    assert on.channel.is_full
    assert on.channel.held_bytes == 4001 * len(unknown)
    on.serve()
    assert len(take_frames(on.ports.client)) == 5001
