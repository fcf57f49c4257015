"""The messages for which no jar is needed have the bytes of those in the jar."""

import pytest

from quota.wire.builtin import BUILTIN

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
def test_each_message_equals_kafkas(protocol, kind, key, version, message):
    own, of_jar = (getattr(source, kind)(key, version) for source in (BUILTIN, protocol))
    assert own.write(message) == of_jar.write(message)
    assert own.read(of_jar.write(message)) == message


def test_each_api_is_among_these_messages(protocol):
    assert {(key, version) for _, key, version, _ in MESSAGES} == {
        (key, api.max_version) for key, api in BUILTIN.apis.items()
    }
    assert all(
        api.min_version == api.max_version and api.name == protocol.apis[key].name for key, api in BUILTIN.apis.items()
    )
