"""The existing APIs and versions."""

import pytest

from conf.docs.messages import messages_text
from quota.wire.primitives import Malformed
from quota.wire.protocol import BUILTIN, Api, Protocol
from quota.wire.schemas import MESSAGES as FILE

ANY = {"type": "request", "listeners": ["broker"], "validVersions": "0", "fields": []}


@pytest.mark.parametrize(
    ("key", "version", "error"),
    [
        (4, 0, "API key 4 is unknown to Kafka"),
        (-1, 0, "API key -1 is unknown to Kafka"),
        (19, 1, "CreateTopics v1 is unknown to Kafka .*, which has v2 to v7"),
        (19, 8, "CreateTopics v8 is unknown to Kafka"),
        (19, -1, "CreateTopics v-1 is unknown to Kafka"),
    ],
)
def test_an_unknown_key_or_version_is_malformed(protocol, key, version, error):
    for codec in protocol.request, protocol.response:
        with pytest.raises(Malformed, match=error):
            codec(key, version)


def test_only_requests_to_brokers_are_offered():
    schemas = {
        "ARequest": {**ANY, "name": "ARequest", "apiKey": 1, "validVersions": "1-3", "flexibleVersions": "2+"},
        "AResponse": {**ANY, "name": "AResponse", "apiKey": 1, "type": "response"},
        "BRequest": {**ANY, "name": "BRequest", "apiKey": 2, "listeners": ["controller"]},
        "CRequest": {**ANY, "name": "CRequest", "apiKey": 3, "validVersions": "none"},
        "DRequest": {**ANY, "name": "DRequest", "apiKey": 4, "validVersions": "0-2", "latestVersionUnstable": True},
        "ERequest": {**ANY, "name": "ERequest", "apiKey": 5, "latestVersionUnstable": True},
        "Header": {"name": "Header", "type": "header", "validVersions": "0", "fields": []},
    }
    protocol = Protocol(schemas, "9.8.7")
    assert dict(protocol.apis) == {1: Api(1, "A", 1, 3, 2), 4: Api(4, "D", 0, 1, None)}
    assert protocol.version == "9.8.7"


def test_the_projects_file_has_the_same_protocol_as_the_jar(jars):
    """It has 79 requests and their responses, without descriptions and without messages among controllers."""
    installed, of_jar = Protocol.of_messages(), Protocol.of_jar(jars)
    assert (installed.version, installed.apis) == (of_jar.version, of_jar.apis)
    text = FILE.read_text()
    assert text == messages_text(jars), "make references writes the file again"
    assert text.count('"type": "request"') == text.count('"type": "response"') == 79
    assert '"about"' not in text
    assert "BrokerHeartbeat" not in text
    metadata = {"topics": [{"topicId": bytes(16), "name": "t"}], "allowAutoTopicCreation": False}
    assert installed.request(3, 12).write(metadata) == of_jar.request(3, 12).write(metadata)


PARTITION = {"partitionIndex": 1, "currentLeaderEpoch": 2, "timestamp": -1}
FOUND = {"partitionIndex": 1, "errorCode": 6, "timestamp": 3, "offset": 4, "leaderEpoch": 5}
MESSAGES = [
    ("request", 2, 4, {"replicaId": -2, "isolationLevel": 1, "topics": [{"name": "a", "partitions": [PARTITION]}]}),
    ("response", 2, 4, {"throttleTimeMs": 7, "topics": [{"name": "a", "partitions": [FOUND]}]}),
    ("request", 17, 1, {"mechanism": "PLAIN"}),
    ("response", 17, 1, {"errorCode": 33, "mechanisms": ["PLAIN", "SCRAM-SHA-512"]}),
    ("request", 18, 0, {}),
    ("response", 18, 0, {"errorCode": 35, "apiKeys": [{"apiKey": 1, "minVersion": 2, "maxVersion": 3}]}),
    ("request", 36, 1, {"authBytes": b"abc"}),
    ("response", 36, 1, {"errorCode": 58, "errorMessage": None, "authBytes": b"x", "sessionLifetimeMs": 9}),
    ("response", 36, 1, {"errorCode": 58, "errorMessage": "no", "authBytes": b"x", "sessionLifetimeMs": 9}),
]


@pytest.mark.parametrize(("kind", "key", "version", "message"), MESSAGES)
def test_each_builtin_message_has_the_bytes_of_the_one_in_the_jar(protocol, kind, key, version, message):
    own, of_jar = (getattr(source, kind)(key, version) for source in (BUILTIN, protocol))
    assert own.write(message) == of_jar.write(message)
    assert own.read(of_jar.write(message)) == message


def test_each_builtin_api_is_among_these_messages(protocol):
    assert {(key, version) for _, key, version, _ in MESSAGES} == {
        (key, api.max_version) for key, api in BUILTIN.apis.items()
    }
    assert all(
        api.min_version == api.max_version and api.name == protocol.apis[key].name for key, api in BUILTIN.apis.items()
    )
