"""The existing APIs and versions."""

import pytest

from conf.docs.messages import messages_text
from quota.wire.primitives import Malformed
from quota.wire.protocol import Api, Protocol
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
