"""Large requests at a real broker through the gateway, and the newest versions of Produce and Fetch."""

import struct

import pytest

from tests.support.gateway import protocol, wire_client
from tests.support.waiting import until
from tests.support.wire.requests import NO_ID, creation, deletion, metadata

MEBIBYTE = 1024 * 1024


@pytest.fixture
def both(plain):
    """A client of the broker, and one of the gateway."""
    clients = [wire_client(port) for port in (plain.broker.port, plain.gateway.port)]
    yield clients
    for client in clients:
        client.close()


def errors(answer, field):
    return {(result["errorCode"], result.get("errorMessage")) for result in answer[field]}


@pytest.mark.parametrize("version", [1, 12])
def test_metadata_of_20001_names_is_that_of_the_broker(both, version):
    topics = [{"name": f"not-there-{number}", "topicId": NO_ID} for number in range(20_001)]
    message = {"topics": topics, "allowAutoTopicCreation": version < 4}
    answers = [client.call(3, version, message) for client in both[: 1 if version < 4 else 2] + both[1:]]
    assert [errors(answer, "topics") for answer in answers] == [{(3, None)}] * len(answers)
    assert {len(answer["topics"]) for answer in answers} == {20_001}


def test_a_deletion_of_20001_names_is_answered_as_by_the_broker(both):
    message = deletion(*(f"not-there-{number}" for number in range(20_001)))
    at_broker, through_gateway = (client.call(20, 6, message) for client in both)
    assert errors(through_gateway, "responses") == errors(at_broker, "responses")
    assert len(through_gateway["responses"]) == 20_001


def test_a_thousand_topics_with_twenty_configs_each_are_answered_as_by_the_broker(both):
    """The controller writes at most 10,000 records for a request, and these need 22,000."""
    names = ["retention.ms", "retention.bytes", "segment.ms", "segment.bytes", "segment.jitter.ms", "flush.ms"]
    names += ["flush.messages", "max.message.bytes", "index.interval.bytes", "file.delete.delay.ms"]
    names += ["delete.retention.ms", "min.compaction.lag.ms", "max.compaction.lag.ms", "local.retention.ms"]
    names += ["local.retention.bytes", "segment.index.bytes", "message.timestamp.after.max.ms"]
    names += ["message.timestamp.before.max.ms", "retention.ms", "flush.ms"]
    configs = [{"name": name, "value": "2000000"} for name in names]
    topics = [
        {"name": f"wide-{number}", "numPartitions": 1, "replicationFactor": 1, "assignments": [], "configs": configs}
        for number in range(1000)
    ]
    at_broker, through_gateway = (client.call(19, 7, creation(*topics)) for client in both)
    assert errors(through_gateway, "topics") == errors(at_broker, "topics")
    assert (len(through_gateway["topics"]), 42 in dict(errors(through_gateway, "topics"))) == (1000, False)


def test_a_request_above_the_limits_is_answered_and_the_connection_stays(both):
    """9 MB of names."""
    _, client = both
    answer = client.call(20, 6, deletion(*(f"{number:0230}" for number in range(40_000))))
    ((error, message),) = errors(answer, "responses")
    assert (error, message[:58]) == (42, "the mutation quota gateway takes requests of at most 8 MiB")
    assert client.call(3, 12, metadata())["brokers"]


def test_a_produce_of_90_mb_is_forwarded_unbuffered_while_others_are_served(plain, both):
    """The broker rejects it, since it is not a valid batch; that does not matter here."""
    _, client = both
    client.call(19, 7, creation("large", partitions=1))
    records = bytes(90 * MEBIBYTE)
    partition = {"index": 0, "records": records}
    message = {"transactionalId": None, "acks": 1, "timeoutMs": 1000}
    message["topicData"] = [{"name": "large", "partitionData": [partition]}]
    before = plain.gateway.rss_bytes()
    with wire_client(plain.gateway.port, "big") as big:
        big.call(3, 12, metadata("large"))  # writing the frame may take longer than a client has for its first request
        frame, peak = big.frame(0, 9, message), 0
        for at in range(0, len(frame), MEBIBYTE):
            big.write(frame[at : at + MEBIBYTE])
            if at % (10 * MEBIBYTE) == 0:
                assert client.call(3, 12, metadata("large"))["topics"]
            peak = max(peak, plain.gateway.rss_bytes())
        answer, _ = big.read()
    assert answer["responses"]
    assert peak < before + 20 * MEBIBYTE


def record_batch(value):
    """Return a batch of one record."""
    record = b"\0\0\0\x01" + bytes([2 * len(value)]) + value + b"\0"
    record = bytes([2 * len(record)]) + record
    body = struct.pack(">hiqqqhii", 0, 0, 0, 0, -1, -1, -1, 1) + record
    return struct.pack(">qiib", 0, 9 + len(body), -1, 2) + crc32c(body) + body


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return struct.pack(">I", crc ^ 0xFFFFFFFF)


@pytest.mark.newest_kafka
def test_the_newest_versions_of_produce_and_fetch_pass(both):
    """Addresses are rewritten here; these responses have none, as there is no new leader."""
    _, client = both
    created = client.call(19, 7, creation("newest", partitions=1))["topics"][0]
    offered = {api["apiKey"]: api["maxVersion"] for api in client.call(18, 0, {})["apiKeys"]}
    assert (offered[0], offered[1]) == (protocol().apis[0].max_version, protocol().apis[1].max_version)
    partition = {"index": 0, "records": record_batch(b"hello")}
    topic = {"topicId": created["topicId"], "partitionData": [partition]}

    def produced():
        message = {"transactionalId": None, "acks": 1, "timeoutMs": 9000, "topicData": [topic]}
        answer = client.call(0, offered[0], message)
        return answer["responses"][0]["partitionResponses"][0]["errorCode"] == 0

    until(produced, 20)
    wanted = {"partition": 0, "currentLeaderEpoch": -1, "fetchOffset": 0, "logStartOffset": -1}
    request = {"maxWaitMs": 5000, "minBytes": 1, "maxBytes": 1 << 20, "sessionEpoch": -1, "forgottenTopicsData": []}
    request["topics"] = [{"topicId": created["topicId"], "partitions": [{**wanted, "partitionMaxBytes": 1 << 20}]}]
    answer = client.call(1, offered[1], request)
    (fetched,) = answer["responses"][0]["partitions"]
    assert (fetched["errorCode"], b"hello" in fetched["records"], answer["nodeEndpoints"]) == (0, True, [])
