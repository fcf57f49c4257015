"""The addresses of brokers in answers, also of new leaders (KIP-951): the gateway's own, or none."""

from itertools import pairwise

import pytest

from quota.gateway.addresses import Addresses
from quota.wire.primitives import Malformed
from tests.unit.quota.gateway.cluster import Cluster
from tests.unit.quota.gateway.play import GATEWAY

BROKER = ("broker", 9092)
REWRITING = Addresses({BROKER: GATEWAY})


def with_broker(**more):
    return Cluster(*BROKER, **more)


def brokers(answer):
    return [(broker["host"], broker["port"]) for broker in answer["brokers"]]


@pytest.mark.parametrize("version", range(14))
def test_metadata_names_the_gateway(play, version):
    """All versions do; the rest of the response is the broker's. In version 0 an empty list means all topics."""
    on = play(with_broker(a=2), addresses=REWRITING)
    answer = on.call(3, version, {"topics": None if version else [], "allowAutoTopicCreation": version < 4})
    assert brokers(answer) == [GATEWAY]
    assert [(topic["name"], len(topic["partitions"])) for topic in answer["topics"]] == [("a", 2)]


@pytest.mark.parametrize("version", range(3))
def test_describecluster_names_the_gateway(play, version):
    answer = play(with_broker(), addresses=REWRITING).call(60, version, {})
    assert (brokers(answer), answer["clusterAuthorizedOperations"]) == ([GATEWAY], 7)


@pytest.mark.parametrize("version", range(7))
def test_findcoordinator_names_the_gateway(play, version):
    many = {"coordinatorKeys": ["g", "h"], "keyType": 0}
    answer = play(with_broker(), addresses=REWRITING).call(10, version, many if version > 3 else {"key": "g"})
    nodes = answer["coordinators"] if version > 3 else [answer]
    assert [(node["host"], node["port"], node["errorCode"]) for node in nodes] == [(*GATEWAY, 0)] * (1 + (version > 3))


@pytest.mark.parametrize("addresses", [REWRITING, Addresses({GATEWAY: GATEWAY})], ids=["rewritten", "by brokers"])
class TestForeign:
    """A broker that advertises an address unknown to the gateway."""

    @pytest.fixture
    def on(self, play, addresses):
        return play(Cluster("elsewhere", 1, a=1), addresses=addresses)

    @pytest.mark.parametrize("version", [4, 9, 13])
    def test_an_unknown_broker_is_removed_from_metadata(self, on, version):
        """Clients then wait for it as for one that is down; it is counted."""
        answer = on.call(3, version, {"topics": None})
        assert (answer["brokers"], [topic["name"] for topic in answer["topics"]]) == ([], ["a"])
        assert on.context.stats.foreign_addresses == 1

    def test_an_unknown_broker_is_removed_from_describecluster(self, on):
        assert on.call(60, 2, {})["brokers"] == []

    @pytest.mark.parametrize("version", [0, 3, 4, 6])
    def test_a_coordinator_on_an_unknown_broker_is_not_available(self, on, version):
        """COORDINATOR_NOT_AVAILABLE, at which clients try again."""
        body = {"coordinatorKeys": ["g"], "keyType": 0} if version > 3 else {"key": "g"}
        answer = on.call(10, version, body)
        node = answer["coordinators"][0] if version > 3 else answer
        assert (node["nodeId"], node["host"], node["port"], node["errorCode"]) == (-1, "", -1, 15)


def test_findcoordinator_without_keys_is_answered_without_coordinators(play):
    """The request has no use, but it must not cause an error of the gateway."""
    answer = play().call(10, 6, {"coordinatorKeys": [], "keyType": 0})
    assert answer["coordinators"] == []


def test_an_error_of_findcoordinator_is_unchanged(play):
    on = play()
    error = {"errorCode": 30, "errorMessage": "no", "nodeId": -1, "host": "", "port": -1}
    on.cluster.answer = lambda *_: {"throttleTimeMs": 0, "coordinators": [{"key": "g", **error}]}
    answer = on.call(10, 4, {"coordinatorKeys": ["g"], "keyType": 0})
    assert answer["coordinators"] == [{"key": "g", **error}]


def test_a_response_that_already_names_the_gateway_is_unchanged(play):
    """The very bytes, and so what no schema knows."""
    on = play(Cluster(a=1))
    on.send(3, 12, {"topics": None})
    answer = on.next_answer()
    on.channel.from_broker(answer)
    assert bytes(on.ports.client) == answer


def test_unknown_tags_stay_when_addresses_are_rewritten(play):
    on = play(with_broker(), addresses=REWRITING)
    host, port = BROKER
    broker = {"nodeId": 1, "host": host, "port": port, "rack": "r", "_tags": [(90, b"b")]}
    topic = {"errorCode": 0, "name": "a", "topicId": bytes(16), "partitions": [], "_tags": [(91, b"t")]}
    fields = {"brokers": [broker], "topics": [topic], "clusterId": "c", "controllerId": 1, "_tags": [(92, b"m")]}
    on.cluster.answer = lambda *_: {"throttleTimeMs": 3, **fields}
    answer = on.call(3, 12, {"topics": None})
    assert answer["brokers"] == [{**broker, "host": GATEWAY[0], "port": GATEWAY[1]}]
    assert (answer["topics"][0]["_tags"], answer["_tags"]) == ([(91, b"t")], [(92, b"m")])
    assert answer["throttleTimeMs"] == 3


SECOND, LONG = ("second", 9092), ("gateway-" + "x" * 150 + ".example.org", 19093)
REWRITING_LEADERS = Addresses({BROKER: GATEWAY, SECOND: LONG})
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


def given(play, key, version, answer, addresses=REWRITING_LEADERS):
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
