"""Topics of a Metadata response: what the reader that counts partitions finds is what the message says."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quota.wire.described import METADATA_VERSION, DescribedTopic, read_described_topics
from quota.wire.primitives import Malformed
from quota.wire.protocol import Protocol
from tests.support.checkout import CHECKOUT
from tests.support.measuring import counted_calls, traced_memory

CODEC = Protocol.of_jar(CHECKOUT / ".jars" / "broker").response(3, METADATA_VERSION)

NODES = st.lists(st.integers(0, 9), max_size=4)
TAGS = st.sampled_from([{}, {}, {}, {"_tags": [(7, b"of the future")]}])
PARTITIONS = st.lists(
    st.tuples(st.integers(0, 300), NODES, NODES, st.integers(1, 250), TAGS).map(
        lambda drawn: [
            {
                "errorCode": 0,
                "partitionIndex": number,
                "leaderId": 1,
                "leaderEpoch": drawn[0],
                "replicaNodes": drawn[1],
                "isrNodes": drawn[2],
                **drawn[4],
            }
            for number in range(drawn[3])
        ]
    ),
    max_size=3,
).map(lambda groups: [partition for group in groups for partition in group])
TOPICS = st.lists(
    st.builds(
        lambda error, name, topic_id, partitions, operations, tags: {
            "errorCode": error,
            "name": name,
            "topicId": topic_id,
            "isInternal": False,
            "partitions": partitions,
            "topicAuthorizedOperations": operations,
            **tags,
        },
        st.sampled_from([0, 3, 29, 100]),
        st.none() | st.text(max_size=249),
        st.binary(min_size=16, max_size=16),
        PARTITIONS,
        st.integers(-(2**31), 2**31 - 1),
        TAGS,
    ),
    max_size=4,
)


def body(topics, brokers=2):
    named = [{"nodeId": number, "host": "kafka" * 30, "port": 9092, "rack": None} for number in range(brokers)]
    return CODEC.write({"brokers": named, "clusterId": "c" * 130, "controllerId": 1, "topics": topics})


def topic(name, partitions, replicas=3):
    nodes = list(range(replicas))
    partition = {"errorCode": 0, "leaderId": 1, "leaderEpoch": 5, "replicaNodes": nodes, "isrNodes": nodes}
    return {
        "name": name,
        "topicId": b"i" * 16,
        "partitions": [{**partition, "partitionIndex": n} for n in range(partitions)],
    }


@given(topics=TOPICS, before=st.binary(max_size=9), behind=st.binary(max_size=9))
def test_topics_have_as_many_partitions_as_in_the_message(topics, before, behind):
    """Also if partitions have replicas of their own, or tags; bytes behind the message are ignored."""
    expected = [
        DescribedTopic(
            entry["errorCode"],
            entry["name"],
            entry["topicId"],
            len(entry["partitions"]),
            entry["topicAuthorizedOperations"],
        )
        for entry in topics
    ]
    assert read_described_topics(before + body(topics) + behind, len(before)) == expected


def test_partitions_with_so_many_replicas_that_their_number_takes_two_bytes():
    """130 and 258 have the same first byte, 0x83."""
    many = topic("a", 3, replicas=130)
    many["partitions"][1] = topic("a", 2, replicas=258)["partitions"][1]
    data = body([many, topic("b", 7)])
    assert [described.partitions for described in read_described_topics(data, 0)] == [3, 7]


@given(data=st.binary(max_size=200), end=st.integers(0, 400))
def test_other_bytes_are_malformed_or_some_topics(data, end):
    whole = body([topic("a", 5)], brokers=0)
    for message in (data, whole[:end] + data):
        with suppress(Malformed):
            read_described_topics(message, 0)
    with pytest.raises(Malformed):
        read_described_topics(whole[: end % (len(whole) - 1)], 0)  # the tags at the end are not read


def test_a_response_that_claims_billions_of_partitions_is_malformed():
    """They are not reserved in memory."""
    data = body([topic("a", 2)])
    at = data.index(b"i" * 16) + 17
    assert data[at] == 3
    with traced_memory() as peak, pytest.raises(Malformed):
        read_described_topics(data[:at] + b"\xff\xff\xff\xff\x07" + data[at + 1 :], 0)
    assert peak() < 1_000_000


def test_a_response_that_ends_early_is_malformed():
    whole = body([topic("a", 300), topic("b", 1)])
    for end in range(0, len(whole) - 2, 7):
        with pytest.raises(Malformed):
            read_described_topics(whole[:end], 0)


@pytest.mark.parametrize("all_in_sync", [True, False])
def test_partitions_are_counted_with_a_fraction_of_the_calls_that_decode_them(all_in_sync):
    """So that no other client waits for it. While a broker restarts, every other partition has a replica less."""
    many = [topic(f"t{number}", 1000) for number in range(5)]
    for entry in many:
        for number, partition in enumerate(entry["partitions"]):
            partition["isrNodes"] = [0, 1] if number % 2 and not all_in_sync else [0, 1, 2]
    data = body(many)
    with counted_calls() as counted:
        assert [described.partitions for described in read_described_topics(data, 0)] == [1000] * 5
    with counted_calls() as decoded:
        CODEC.read(data, 0, 1_000_000)
    assert counted() < decoded() / 50
