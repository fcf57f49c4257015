"""The addresses of brokers in answers: the gateway's own, or none."""

import pytest

from quota.gateway.addresses import Addresses
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
