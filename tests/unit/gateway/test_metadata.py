"""Metadata in all versions: it creates no topics, whatever the client allows."""

import struct

import pytest

from quota.gateway.addresses import Addresses
from tests.unit.gateway.cluster import Cluster, topic_id
from tests.unit.gateway.play import GATEWAY, take_frames

NAMED = {"topics": [{"name": "a"}, {"name": "new"}], "allowAutoTopicCreation": True}
START = struct.pack(">i", 1)
BROKER = struct.pack(">iih2si", 1, 1, 2, b"gw", 19092)
NO_RACK, CONTROLLER, TOPICS = b"\xff\xff", struct.pack(">i", 1), struct.pack(">i", 2)
PARTITION = struct.pack(">ihiiiiii", 1, 0, 0, 1, 1, 1, 1, 1)
EXISTING = struct.pack(">hh1s", 0, 1, b"a")
MISSING = struct.pack(">hh3s", 3, 3, b"new")
NOTHING, EXTERNAL = bytes(4), b"\0"
CLUSTER = struct.pack(">h1s", 1, b"c")

LATER_TOPICS = TOPICS + EXISTING + EXTERNAL + PARTITION + MISSING + EXTERNAL + NOTHING
BYTES = {
    0: START + BROKER + TOPICS + EXISTING + PARTITION + MISSING + NOTHING,
    1: START + BROKER + NO_RACK + CONTROLLER + LATER_TOPICS,
    2: START + BROKER + NO_RACK + CLUSTER + CONTROLLER + LATER_TOPICS,
    3: START + bytes(4) + BROKER + NO_RACK + CLUSTER + CONTROLLER + LATER_TOPICS,
}
"""The responses of a broker of Kafka 4.2 without automatic creation."""


@pytest.mark.parametrize("version", range(14))
def test_no_version_creates_topics(play, version):
    """A broker asked in the client's own version creates `new`: in versions 0 to 3 the request cannot forbid it."""
    on = play(Cluster(a=1))
    answer = on.call(3, version, NAMED)
    assert [(each["name"], each["errorCode"]) for each in answer["topics"]] == [("a", 0), ("new", 3)]
    assert set(on.cluster.topics) == {"a"}
    ((_, seen, message),) = on.seen
    assert (seen, message["allowAutoTopicCreation"]) == (max(version, 4), False)
    assert [each["name"] for each in message["topics"]] == ["a", "new"]


@pytest.mark.parametrize("version", range(4))
def test_the_answer_has_the_fields_of_the_clients_version(play, version):
    on = play(Cluster(a=1))
    on.send(3, version, NAMED)
    on.serve()
    assert take_frames(on.ports.client) == [BYTES[version]]


@pytest.mark.parametrize(
    ("version", "topics", "found"),
    [(0, [], {"a"}), (1, [], set()), (1, None, {"a"}), (3, [], set()), (12, None, {"a"})],
)
def test_a_request_without_names_is_forwarded_unchanged(play, version, topics, found):
    """It creates nothing. In version 0 an empty list means all topics, and from version 1 on none."""
    on = play(Cluster(a=1))
    frame = on.frame(3, version, {"topics": topics, "allowAutoTopicCreation": True})
    on.send_bytes(frame)
    assert bytes(on.ports.broker) == frame
    on.serve()
    assert {each["name"] for each in on.answers()[0]["topics"]} == found


@pytest.mark.parametrize("version", range(4))
def test_an_old_version_names_the_gateway(play, version):
    on = play(Cluster("broker", 9092, a=1), addresses=Addresses({("broker", 9092): GATEWAY}))
    answer = on.call(3, version, NAMED)
    assert [(each["host"], each["port"]) for each in answer["brokers"]] == [GATEWAY]


def test_old_and_new_versions_are_answered_in_order(play):
    """Answers are recognized by the order and by the client's correlation ids."""
    on = play(Cluster(a=1))
    versions = [1, 12, 0, 3, 1]
    on.send_bytes(b"".join(on.frame(3, version, NAMED) for version in versions))
    on.serve()
    answers = on.answers()
    assert ["clusterId" in each for each in answers] == [False, True, False, True, False]
    assert [each["topics"][0].get("topicId") for each in answers] == [None, topic_id(1), None, None, None]
