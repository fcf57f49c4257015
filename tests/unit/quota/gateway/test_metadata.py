"""Metadata in all versions: it creates no topics, whatever the client allows."""

import struct
from contextlib import suppress
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quota.gateway.addresses import Addresses
from quota.gateway.metadata import in_version
from quota.wire.primitives import Malformed
from tests.support.gateway import protocol
from tests.support.measuring import counted_calls, traced_memory
from tests.unit.quota.gateway.cluster import Cluster, topic_id
from tests.unit.quota.gateway.play import GATEWAY

NAMED = {"topics": [{"name": "a"}, {"name": "new"}], "allowAutoTopicCreation": True}


@pytest.mark.parametrize("version", range(14))
def test_no_version_creates_topics(play, version):
    """A broker asked in the client's own version creates `new`: in versions 0 to 3 the request cannot forbid it."""
    on = play(Cluster(a=1))
    answer = on.call(3, version, NAMED)
    assert [(topic["name"], topic["errorCode"]) for topic in answer["topics"]] == [("a", 0), ("new", 3)]
    assert set(on.cluster.topics) == {"a"}
    ((_, seen, message),) = on.seen
    assert (seen, message["allowAutoTopicCreation"]) == (max(version, 4), False)
    assert [topic["name"] for topic in message["topics"]] == ["a", "new"]


@pytest.mark.parametrize(
    ("version", "topics", "expected"),
    [(0, [], {"a"}), (1, [], set()), (1, None, {"a"}), (3, [], set()), (12, None, {"a"})],
)
def test_a_request_without_names_is_forwarded_unchanged(play, version, topics, expected):
    """It creates nothing. In version 0 an empty list means all topics, and from version 1 on none."""
    on = play(Cluster(a=1))
    frame = on.frame(3, version, {"topics": topics, "allowAutoTopicCreation": True})
    on.send_bytes(frame)
    assert bytes(on.ports.broker) == frame
    on.serve()
    assert {topic["name"] for topic in on.answers()[0]["topics"]} == expected


TOPIC = {"name": "app-store-changelog", "partitions": 0, "replicationFactor": 0, "topicConfigs": []}


def heartbeat(**internal):
    """The heartbeat of a Streams application that joins its group."""
    kinds = ("stateChangelogTopics", "repartitionSourceTopics", "repartitionSinkTopics")
    empty = {kind: [] for kind in (*kinds, "sourceTopicRegex", "copartitionGroups")}
    subtopology = {"subtopologyId": "0", "sourceTopics": ["a"], **empty, **internal}
    member = {"groupId": "app", "memberId": "m", "memberEpoch": 0, "endpointInformationEpoch": -1}
    return {**member, "topology": {"epoch": 0, "subtopologies": [subtopology]}}


@pytest.mark.parametrize("version", range(2))
@pytest.mark.parametrize("kind", ["stateChangelogTopics", "repartitionSourceTopics"])
def test_a_topology_whose_internal_topics_brokers_would_create_is_refused(play, version, kind):
    """A heartbeat without a topology, or with one that has no internal topics, is forwarded as it is."""
    on = play(Cluster(a=1))
    answer = on.call(88, version, heartbeat(**{kind: [TOPIC]}))
    assert (answer["errorCode"], on.seen) == (130, [])
    assert "app-store-changelog; 1 in all" in answer["errorMessage"]
    for message in (heartbeat(), {**heartbeat(), "topology": None}):
        frame = on.frame(88, version, message)
        on.send_bytes(frame)
        assert bytes(on.ports.broker).endswith(frame)


def test_old_and_new_versions_are_answered_in_order(play):
    """Answers are recognized by the order and by the client's correlation ids."""
    on = play(Cluster(a=1))
    versions = [1, 12, 0, 3, 1]
    on.send_bytes(b"".join(on.frame(3, version, NAMED) for version in versions))
    on.serve()
    answers = on.answers()
    assert ["clusterId" in answer for answer in answers] == [False, True, False, True, False]
    assert [answer["topics"][0].get("topicId") for answer in answers] == [None, topic_id(1), None, None, None]


MANY = {f"topic-{number:0234}": 3 for number in range(400)}
LARGE = [(version, False) for version in range(14)] + [(version, True) for version in range(1, 14)]


@pytest.mark.parametrize(("version", "is_named"), LARGE)
def test_topics_of_a_large_response_are_passed_on_as_they_arrive(play, version, is_named):
    """Held is no more than its beginning, and what the client gets is as in one piece."""
    on = play(Cluster("broker", 9092, **MANY), addresses=Addresses({("broker", 9092): GATEWAY}))
    topics = [{"name": name} for name in MANY] if is_named else [] if not version else None
    on.send(3, version, {"topics": topics, "allowAutoTopicCreation": version < 4 or is_named})
    frame = on.next_answer()
    assert len(frame) > 100_000
    ends = [*range(7, 3000, 7), *range(3000, len(frame), 30_000), len(frame)]
    held = 0
    for start, end in pairwise([0, *ends]):
        on.channel.from_broker(frame[start:end])
        held = max(held, end - len(on.ports.client))
    assert held < 150
    (answer,) = on.answers()
    assert [(broker["host"], broker["port"]) for broker in answer["brokers"]] == [GATEWAY]
    assert {topic["name"]: len(topic["partitions"]) for topic in answer["topics"]} == MANY
    assert on.channel.is_idle


def test_an_unknown_broker_of_a_large_response_is_left_out_and_counted_once(play):
    on = play(Cluster("elsewhere", 9092, **MANY), addresses=Addresses({("broker", 9092): GATEWAY}))
    answer = on.call(3, 12, {"topics": None})
    assert (answer["brokers"], len(answer["topics"])) == ([], len(MANY))
    assert on.context.stats.foreign_addresses == 1


def test_the_response_after_a_large_one_is_another(play):
    on = play(Cluster("broker", 9092, **MANY), addresses=Addresses({("broker", 9092): GATEWAY}))
    for topics in (None, [{"name": next(iter(MANY))}]):
        on.send(3, 12, {"topics": topics, "allowAutoTopicCreation": False})
    on.channel.from_broker(on.next_answer() + on.next_answer())
    assert [len(answer["topics"]) for answer in on.answers()] == [len(MANY), 1]


def test_a_large_response_that_lies_about_its_brokers_closes_the_connection(play):
    """As soon as its beginning is longer than any cluster's."""
    on = play(Cluster(**MANY))
    on.send(3, 1, {"topics": None})
    frame = bytearray(on.next_answer())
    frame[8:12] = struct.pack(">i", 2**31 - 1)
    with pytest.raises(Malformed):
        on.channel.from_broker(bytes(frame))
    assert not on.ports.client


def metadata(*replicas_of_topics):
    """A response of version 4: for each topic the numbers of replicas of its partitions, and of those in sync."""
    topics = [
        {
            "name": f"t{number}",
            "partitions": [
                {"leaderId": 1, "replicaNodes": [*range(replicas)], "isrNodes": [*range(in_sync)]}
                for replicas, in_sync in partitions
            ],
        }
        for number, partitions in enumerate(replicas_of_topics)
    ]
    return protocol().response(3, 4).write({"brokers": [{"host": "h"}], "topics": topics})


PARTITIONS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=4)


@given(topics=st.lists(PARTITIONS, max_size=4))
def test_an_old_version_has_the_topics_and_partitions_of_the_response(topics):
    """Whatever replicas they have; 256 and 512 differ in one byte of their numbers alone."""
    for given_topics in (topics, [*topics, [(3, 256), (3, 512)]]):
        body = metadata(*given_topics)
        read = protocol().response(3, 4).read(body)
        for version in range(4):
            assert in_version(protocol(), version, body) == protocol().response(3, version).write(read)


@given(end=st.integers(0, 200), behind=st.binary(max_size=100))
def test_bytes_that_are_no_response_are_malformed_or_some_topics(end, behind):
    whole = metadata([(3, 3)] * 3, [])
    with suppress(Malformed):
        in_version(protocol(), 0, whole[:end] + behind)
    with pytest.raises(Malformed):
        in_version(protocol(), 0, whole[: end % len(whole)])


@pytest.mark.parametrize("field", [b"\0\0\0\2\0\0\0\0", b"\0\0\0\3\0\0\0\0"], ids=["partitions", "replicas"])
def test_a_response_that_lies_about_its_parts_is_malformed(field):
    """It claims 2,147,483,647 of them, which are not reserved in memory."""
    body = metadata([(3, 3)] * 2)
    at = body.index(field)
    lying = body[:at] + struct.pack(">i", 2**31 - 1) + body[at + 4 :]
    with traced_memory() as peak, pytest.raises(Malformed):
        in_version(protocol(), 0, lying)
    assert peak() < 1_000_000


def test_version_0_is_made_with_a_fraction_of_the_calls_that_decode_a_response():
    """So that no other client waits for it."""
    body = metadata(*[[(3, 3)] * 500] * 5)
    in_version(protocol(), 0, body)  # its codec is made once
    with counted_calls() as made:
        in_version(protocol(), 0, body)
    with counted_calls() as decoded:
        protocol().response(3, 4).read(body, max_elements=1_000_000)
    assert made() < decoded() / 20
