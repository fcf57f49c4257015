"""What a client may send: APIs and versions, sizes, numbers, and frames that are not valid requests."""

import struct

import pytest

from quota.gateway import pipeline
from quota.gateway.pipeline import ChannelError
from quota.gateway.requests import OfferedApis
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
        assert len(on.channel.requests) <= 8 * 1024 * 1024
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
    assert len(on.channel.requests) == 0


def test_the_gateways_own_outstanding_responses_are_bounded(play):
    """Those that wait for the broker's count, too."""
    on = play()
    on.send(3, 12, METADATA)
    unknown = struct.pack(">ihhih", 14, 18, 999, 2, -1) + b"\0\x01\x01\0"
    on.send_bytes(unknown * 5000)
    assert on.channel.is_full
    assert len(on.channel.requests) == 4001 * len(unknown)
    on.serve()
    assert len(take_frames(on.ports.client)) == 5001


def versions(answer):
    return {api["apiKey"]: (api["minVersion"], api["maxVersion"]) for api in answer["apiKeys"]}


@pytest.mark.parametrize("version", [0, 1, 2, 3, 4])
def test_versions_known_to_both_the_gateway_and_the_broker_are_advertised(play, version):
    """The unknown API (999) and the withheld one (88) are omitted.

    Produce begins with the broker's own first version, for librdkafka's sake (KAFKA-18659).
    """
    answer = play().call(18, version, {"clientSoftwareName": "x", "clientSoftwareVersion": "1"} if version > 2 else {})
    assert versions(answer) == {
        0: (0, 13),
        1: (4, 17),
        3: (0, 13),
        10: (1, 6),
        17: (0, 1),
        18: (0, 4),
        19: (2, 7),
        20: (1, 6),
        37: (0, 3),
        78: (1, 2),
        79: (1, 2),
        88: (0, 0),
    }


def test_permissive_versions_can_be_omitted(play):
    advertised = versions(play(permissive=False).call(18, 3, {}))
    assert (advertised[19], advertised[37], advertised[20]) == ((6, 7), (3, 3), (5, 6))


def test_the_other_fields_of_the_answer_are_unchanged_and_a_tag_says_that_this_is_a_gateway(play):
    """Features, and tags that the gateway does not know."""
    on = play()
    feature = {"name": "f", "minVersion": 1, "maxVersion": 2}
    more = {"supportedFeatures": [feature], "finalizedFeaturesEpoch": 7, "_tags": [(50, b"new"), (20_000, b"newer")]}
    plain = on.cluster.answer
    on.cluster.answer = lambda *request: {**plain(*request), **more}
    answer = on.call(18, 4, {})
    marked = [(50, b"new"), (10_599, b"mutation-quota gateway"), (20_000, b"newer")]
    assert {name: answer[name] for name in more} == {**more, "_tags": marked}


@pytest.mark.parametrize("version", [6, 99, 32767])
def test_an_unknown_version_of_apiversions_is_answered_in_version_0(play, version):
    """The response is that of a broker: error 35, and the known versions."""
    on = play()
    frame = struct.pack(">hhih", 18, version, 77, -1) + b"\0" + b"\x01\x01" + b"\0"
    on.send_bytes(len(frame).to_bytes(4) + frame)
    assert bytes(on.ports.client[4:]) == struct.pack(">ihihhh", 77, 35, 1, 18, 0, 5)
    assert on.seen == []


def test_a_broker_that_does_not_know_the_version_is_understood(play):
    on = play()
    on.send(18, 4, {})
    on.next_answer()
    on.channel.from_broker(struct.pack(">iihihhh", 16, 1, 35, 1, 18, 0, 3))
    (answer,) = on.answers()
    assert (answer["errorCode"], versions(answer)) == (35, {18: (0, 3)})


@pytest.mark.parametrize(
    ("key", "version"),
    [
        (58, 0),  # Envelope: a request of another client
        (19, 1),
        (37, 4),
        (0, 2),
        (999, 0),
        (19, -1),
    ],
)
def test_a_version_that_is_not_advertised_closes_the_connection(play, key, version):
    on = play()
    with pytest.raises(ChannelError, match=f"API {key} in version {version}, which is not offered"):
        on.send_bytes(struct.pack(">ihhih", 12, key, version, 1, -1) + bytes(2))
    assert bytes(on.ports.broker) == b""


def test_omitted_permissive_versions_are_rejected(play):
    """They are not only omitted from the advertised versions."""
    on = play(permissive=False)
    with pytest.raises(ChannelError, match="API 19 in version 5"):
        on.send(19, 5, {"topics": []})


def test_every_api_of_the_release_is_classified(protocol):
    """An API of a new release may create topics or name brokers: check it before adding it here."""
    known = {0, 1, 2, 3, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 28, 29, 30, 31, 32}
    known |= {33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43, 44, 45, 46, 47, 48, 49, 50, 51, 55, 57, 60, 61, 64, 65, 66}
    known |= {68, 69, 71, 72, 74, 75, 76, 77, 78, 79, 80, 81, 83, 84, 85, 86, 87, 88, 89, 90, 91, 92, 93, 94, 27}
    offered = OfferedApis(protocol, permissive=True)
    keys = {key for key, api in protocol.apis.items() if offered.offers(key, api.max_version)}
    assert keys == known
