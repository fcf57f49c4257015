"""Requests that few clients send, each by a separate user, and the versions and mechanisms that are offered."""

import time

from tests.evidence.gateway.observation import Observation
from tests.evidence.gateway.program import Difference
from tests.evidence.gateway.requests import (
    NO_ID,
    Request,
    ask,
    ask_at_once,
    create,
    delete,
    grow,
    metadata,
    new_topic,
)
from tests.evidence.gateway.sides import Side
from tests.evidence.gateway.versions import Case
from tests.support.wire_client import WireClient

_ALONE = "with a full bucket"
_API_VERSIONS, _SASL_HANDSHAKE = 18, 17
_OFFERS = {
    0: "Produce",
    1: "Fetch",
    3: "Metadata",
    17: "SaslHandshake",
    78: "ShareFetch",
    79: "ShareAcknowledge",
    88: "StreamsGroupHeartbeat",
}
"""Names of the APIs whose versions the gateway offers differently from the broker, by key."""
_CREATED_SECONDS = {"direct": 60, "gateway": 10}
"""How long to wait for a topic to be created, by side: brokers of a busy machine may take a while."""
_OFFERED = "which versions are offered"

_NEW_LEADERS = "share groups, and KIP-951's new leaders"
_CREATED_BY_BROKERS = "topics that brokers create by themselves for clients (Metadata requests, KIP-1071)"
_OLD_CLIENTS = "clients older than Kafka 1.0 that authenticate (SaslHandshake v0)"
_VALIDATE_ONLY = "`validate_only` through the gateway"

DIFFERENCES = {
    ("validate growing", _ALONE): Difference(_VALIDATE_ONLY, "odd-present: ok", "odd-present: ok", throttle=True),
    ("a topic that brokers may create", "Metadata, a while after"): Difference(
        _CREATED_BY_BROKERS, "odd-automatic: 1 partitions", "odd-automatic: 0 partitions"
    ),
    (_OFFERED, "Produce"): Difference(_NEW_LEADERS, "0 to 13", "0 to 9"),
    (_OFFERED, "Fetch"): Difference(_NEW_LEADERS, "4 to 18", "4 to 15"),
    (_OFFERED, "transaction.version"): Difference(_NEW_LEADERS, "2", "1"),
    (_OFFERED, "ShareFetch"): Difference(_NEW_LEADERS, "1 to 2", "not offered"),
    (_OFFERED, "ShareAcknowledge"): Difference(_NEW_LEADERS, "1 to 2", "not offered"),
    (_OFFERED, "StreamsGroupHeartbeat"): Difference(_CREATED_BY_BROKERS, "0 to 0", "not offered"),
    (_OFFERED, "Metadata"): Difference(_CREATED_BY_BROKERS, "0 to 13", "4 to 13"),
    (_OFFERED, "SaslHandshake"): Difference(_OLD_CLIENTS, "0 to 1", "1 to 1"),
}
DIFFERING_TOPICS = ("odd-automatic",)


def cases(side: Side) -> list[Case]:
    """Return the cases."""
    found: list[Case] = [
        lambda client, each=each: [ask(client, side, each.step, Request(_ALONE, each.key, each.version, each.message))]
        for each in _odd(side)
    ]
    return [
        *found,
        lambda client: _automatic(client, side),
        lambda client: _at_once(client, side),
        _offered,
        _mechanisms,
    ]


def prepared_topics(side: Side) -> dict[str, int]:
    """Return the topics that are grown and deleted, with the numbers of their partitions."""
    return {side.topic("odd-present"): 1, side.topic("odd-deleted"): 1}


def _odd(side: Side) -> list[Request]:
    present, a = side.topic("odd-present"), side.topic("odd-a")
    own = [{"partitionIndex": 0, "brokerIds": [1]}, {"partitionIndex": 1, "brokerIds": [1]}]
    absent = [{"partitionIndex": 0, "brokerIds": [7]}]
    return [
        create("create nothing", 7),
        create("create one name twice", 7, *[new_topic(a, 1)] * 2, new_topic(side.topic("odd-b"), 1)),
        create("no partitions at all", 7, new_topic(a, 0)),
        create("an assignment and a number", 7, new_topic(a, 2, 1, assignments=own)),
        create("an assignment", 7, new_topic(side.topic("odd-own"), -1, -1, assignments=own)),
        create("an assignment to no broker", 7, new_topic(a, -1, -1, assignments=absent)),
        create("defaults", 5, new_topic(side.topic("odd-c"), -1, -1)),
        create("defaults, in a version without them", 2, new_topic(side.topic("odd-d"), -1, -1)),
        create("a time limit of 0", 7, new_topic(side.topic("odd-e"), 1)).with_fields(timeoutMs=0),
        create("validate only", 4, new_topic(side.topic("odd-f"), 1)).with_fields(validateOnly=True),
        create("a reserved name", 7, new_topic("__cluster_metadata", 1)),
        grow("grow one twice", 3, (present, 2), (present, 3)),
        grow("grow to fewer", 3, (present, 0)),
        grow("grow nothing", 3),
        grow("validate growing", 1, (present, 20)).with_fields(validateOnly=True),
        delete("delete one twice", 6, present, present),
        delete("delete by a null name and no id", 6, ids=[NO_ID]),
        delete("delete nothing", 6),
        delete("delete", 4, side.topic("odd-deleted")),
    ]


def _automatic(client: WireClient, side: Side) -> list[Observation]:
    """Request a missing topic that may be created automatically, until it exists or the time is over."""
    case, name = "a topic that brokers may create", side.topic("odd-automatic")
    first = ask(client, side, case, metadata("Metadata that allows to create it", name, auto_create=True))
    deadline = time.monotonic() + _CREATED_SECONDS[side.name]
    while True:
        again = ask(client, side, case, metadata("Metadata, a while after", name))
        if "1 part" in again.seen or time.monotonic() > deadline:
            return [first, again]
        time.sleep(0.1)


def _at_once(client: WireClient, side: Side) -> list[Observation]:
    """Create, grow and delete a topic without waiting: brokers' metadata may not know it yet, the controller does."""
    name = side.topic("odd-short-lived")
    requests = (
        create("create", 7, new_topic(name, 1)),
        grow("grow", 3, (name, 12)),
        delete("delete, in debt", 6, name),
    )
    return ask_at_once(client, side, "created, grown and deleted at once", requests)


def _offered(client: WireClient) -> list[Observation]:
    """Return the versions of the APIs that differ on purpose, and those of all others."""
    sent = time.monotonic() * 1000
    answer = client.call(_API_VERSIONS, 4, {"clientSoftwareName": "proof", "clientSoftwareVersion": "1"})
    received = time.monotonic() * 1000
    offered = {each["apiKey"]: f"{each['minVersion']} to {each['maxVersion']}" for each in answer["apiKeys"]}
    seen = [
        Observation(_OFFERED, name, offered.pop(key, "not offered"), sent, received) for key, name in _OFFERS.items()
    ]
    others = ", ".join(f"{key}: {versions}" for key, versions in sorted(offered.items()))
    features = {each["name"]: each["maxVersionLevel"] for each in answer["finalizedFeatures"]}
    transactions = str(features.pop("transaction.version", None))
    others_features = ", ".join(f"{name} {level}" for name, level in sorted(features.items()))
    return [
        *seen,
        Observation(_OFFERED, "all others", f"{len(offered)} APIs", sent, received, None, others),
        Observation(_OFFERED, "transaction.version", transactions, sent, received),
        Observation(_OFFERED, "other features", others_features, sent, received),
    ]


def _mechanisms(client: WireClient) -> list[Observation]:
    """Begin to authenticate by a mechanism that the broker does not have."""
    with client.another() as stranger:
        sent = time.monotonic() * 1000
        answer = stranger.call(_SASL_HANDSHAKE, 1, {"mechanism": "OTHER"})
        received = time.monotonic() * 1000
    seen = f"{answer['errorCode']} {', '.join(sorted(answer['mechanisms']))}"
    return [Observation("a mechanism that is unknown", "SaslHandshake", seen, sent, received)]
