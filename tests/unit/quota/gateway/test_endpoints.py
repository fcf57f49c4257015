"""The addresses of new leaders in responses to Produce, Fetch and share groups (KIP-951)."""

from itertools import pairwise

import pytest

from quota.gateway.addresses import Addresses
from quota.wire.primitives import Malformed
from tests.unit.quota.gateway.cluster import Cluster
from tests.unit.quota.gateway.play import GATEWAY

BROKER, SECOND, LONG = ("broker", 9092), ("second", 9092), ("gateway-" + "x" * 150 + ".example.org", 19093)
REWRITING = Addresses({BROKER: GATEWAY, SECOND: LONG})
VERSIONS = [(0, 10), (0, 12), (0, 13), (1, 16), (1, 18), (78, 1), (78, 2), (79, 1), (79, 2)]
LEADER = {"leaderId": 2, "leaderEpoch": 5}


def endpoint(node, address, rack="r", **more):
    return {"nodeId": node, "host": address[0], "port": address[1], "rack": rack, **more}


def answer_of(key, *endpoints, records=b"", partitions=2, **more):
    """Return a response, with records in the first partition, and an error and a leader in the others."""
    parts = [{"errorCode": 6 if number else 0, "currentLeader": LEADER} for number in range(partitions)]
    for number, part in enumerate(parts):
        if key in {1, 78}:
            part |= {"partitionIndex": number, "records": b"" if number else records}
        else:
            part |= {"index": number, "partitionIndex": number}
        if key == 1:
            part |= {"highWatermark": 7, "abortedTransactions": [{"producerId": 1, "firstOffset": 2}] * number}
        if key == 78:
            part |= {"acquiredRecords": [{"firstOffset": 1, "lastOffset": 2, "deliveryCount": 1}], "errorMessage": "e"}
    name = "partitionResponses" if key == 0 else "partitions"
    topics = [{"name": "t", "topic": "t", "topicId": bytes(16), name: parts}]
    return {"throttleTimeMs": 3, "responses": topics, "nodeEndpoints": list(endpoints), **more}


REQUESTS = {
    0: {"transactionalId": None, "acks": 1, "timeoutMs": 1, "topicData": []},
    1: {"topics": [], "forgottenTopicsData": [], "replicaId": -1, "maxWaitMs": 1, "minBytes": 1},
    78: {"groupId": "g", "memberId": "m", "topics": [], "forgottenTopicsData": []},
    79: {"groupId": "g", "memberId": "m", "topics": []},
}


def given(play, key, version, answer, addresses=REWRITING):
    """Return a channel whose broker answers a request so, and the frame that it sends."""
    on = play(Cluster(), addresses=addresses)
    on.cluster.answer = lambda *_: answer
    on.send(key, version, REQUESTS[key])
    return on, on.next_answer()


@pytest.mark.parametrize(("key", "version"), VERSIONS)
def test_the_gateway_is_named_instead(play, key, version):
    """The rest of the response stays, with its records and what no schema knows."""
    more = {"_tags": [(77, b"new")]}
    sent = answer_of(key, endpoint(1, BROKER), endpoint(2, SECOND, None), records=b"abc" * 9, **more)
    on, frame = given(play, key, version, sent)
    on.channel.from_broker(frame)
    (answer,) = on.answers()
    assert answer["nodeEndpoints"] == [endpoint(1, GATEWAY), endpoint(2, LONG, None)]
    codec = on.protocol.response(key, version)
    as_sent = codec.read(codec.write(sent))
    assert {**answer, "nodeEndpoints": []} == {**as_sent, "nodeEndpoints": []}


@pytest.mark.parametrize(("key", "version"), VERSIONS)
def test_an_unknown_broker_is_removed_and_counted(play, key, version):
    on, frame = given(play, key, version, answer_of(key, endpoint(1, BROKER), endpoint(9, ("elsewhere", 1))))
    on.channel.from_broker(frame)
    assert on.answers()[0]["nodeEndpoints"] == [endpoint(1, GATEWAY)]
    assert on.context.stats.foreign_addresses == 1


@pytest.mark.parametrize(("key", "version"), VERSIONS)
@pytest.mark.parametrize("size", [3, 200_000])
def test_a_response_without_addresses_has_the_brokers_bytes(play, key, version, size):
    on, frame = given(play, key, version, answer_of(key, records=bytes(size)))
    on.channel.from_broker(frame)
    assert bytes(on.ports.client) == frame


def test_nothing_is_changed_where_brokers_advertise_the_gateway(play):
    """These responses are not even read."""
    on, frame = given(play, 1, 17, answer_of(1, endpoint(1, BROKER)), Addresses({GATEWAY: GATEWAY}))
    on.channel.from_broker(frame)
    assert bytes(on.ports.client) == frame


@pytest.mark.parametrize(("key", "version"), [(1, 16), (1, 18), (78, 1), (78, 2)])
class TestLarge:
    """Responses of more than 64 KiB: they are forwarded as they arrive, so that their length stays."""

    def test_addresses_are_removed(self, play, key, version):
        """The leader's id stays, and clients know its address from Metadata."""
        sent = answer_of(key, endpoint(1, BROKER), endpoint(2, SECOND), records=bytes(range(256)) * 1000)
        on, frame = given(play, key, version, sent)
        on.channel.from_broker(frame)
        assert len(on.ports.client) == len(frame)
        (answer,) = on.answers()
        assert answer.pop("_tags")[0][0] == 100
        codec = on.protocol.response(key, version)
        assert answer == {**codec.read(codec.write(sent)), "nodeEndpoints": []}

    @pytest.mark.parametrize("host_bytes", range(90, 140))
    def test_any_number_of_bytes_can_be_removed(self, play, key, version, host_bytes):
        """A single unknown tag can replace any but 130."""
        sent = answer_of(key, endpoint(1, ("h" * host_bytes, 1), None), records=bytes(100_000), _tags=[(100, b"x")])
        on, frame = given(play, key, version, sent)
        on.channel.from_broker(frame)
        assert len(on.ports.client) == len(frame)
        (answer,) = on.answers()
        assert (answer["nodeEndpoints"], answer["_tags"][0]) == ([], (100, b"x"))

    @pytest.mark.parametrize("size", [1, 7, 4096, 65_536])
    def test_it_is_forwarded_as_it_arrives(self, play, key, version, size):
        """Nothing is held but the end, whatever the pieces."""
        sent = answer_of(key, endpoint(1, BROKER), records=bytes(70_000), partitions=40)
        on, frame = given(play, key, version, sent)
        ends = [*range(size, 5000, size), *range(len(frame) - 5000, len(frame), size), len(frame)]
        for start, end in pairwise([0, *ends]):
            on.channel.from_broker(frame[start:end])
            assert end - len(on.ports.client) < 40
        (answer,) = on.answers()
        assert (answer["nodeEndpoints"], len(answer["responses"][0]["partitions"])) == ([], 40)
        assert on.channel.is_idle

    def test_the_next_response_is_another_one(self, play, key, version):
        """It is forwarded unread, as its version names no leaders."""
        on, frame = given(play, key, version, answer_of(key, endpoint(1, BROKER), records=bytes(70_000)))
        on.cluster.answer = lambda *_: answer_of(1)
        on.send(1, 12, REQUESTS[1])
        second = on.next_answer()
        on.channel.from_broker(frame + second[:20])
        on.channel.from_broker(second[20:])
        assert bytes(on.ports.client[len(frame) :]) == second

    def test_a_response_that_lies_about_its_parts_closes_the_connection(self, play, key, version):
        """The varint of 70,001 becomes one of 2,085,233."""
        on, frame = given(play, key, version, answer_of(key, records=bytes(70_000)))
        lie = frame.replace(b"\xf1\xa2\x04", b"\xf1\xa2\x7f")
        assert lie != frame
        with pytest.raises(Malformed, match="more bytes than it has"):
            on.channel.from_broker(lie)
