"""Principals and permissions of clients: as at the broker, for each mechanism, and never another client's."""

import struct
import time

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewPartitions,
    NewTopic,
    ResourcePatternType,
    ResourceType,
    ScramMechanism,
)

from tests.support.broker import SESSION_MS, add_scram_users
from tests.support.gateway import is_closed, running_gateway, wire_client
from tests.support.topics import QUIET
from tests.support.waiting import until
from tests.support.wire.requests import creation, deletion, growth, metadata

DECISION_MS = 2500
"""How long a decision may take at the gateway whose limits are short."""


def acl(user, operation, name=""):
    topics = (ResourceType.TOPIC, name or f"{user}-", ResourcePatternType.PREFIXED)
    return AclBinding(*topics, f"User:{user}", "*", operation, AclPermissionType.ALLOW)


def cluster_acl(user, operation):
    """Return an ACL that `kafka-acls.sh` cannot set for each operation, but a client can."""
    cluster = (ResourceType.BROKER, "kafka-cluster", ResourcePatternType.LITERAL)
    return AclBinding(*cluster, f"User:{user}", "*", operation, AclPermissionType.ALLOW)


@pytest.fixture(scope="module")
def sasl(serve, secured):
    """A gateway in front of the broker's listener with all mechanisms: alice may do all to her topics, bob see his."""
    admin = secured.admin
    bindings = [acl("alice", AclOperation.ALL), acl("bob", AclOperation.DESCRIBE), acl("carol", AclOperation.ALL)]
    bindings += [acl("frank", right) for right in (AclOperation.CREATE, AclOperation.ALTER, AclOperation.DELETE)]
    bindings += [cluster_acl("dave", AclOperation.ALL), cluster_acl("erin", AclOperation.DELETE)]
    made = [*admin.create_acls(bindings).values()]
    made += admin.create_topics([NewTopic("bob-old", 2), NewTopic("alice-old", 2)]).values()
    for future in made:
        future.result(30)
    add_scram_users(admin, ScramMechanism.SCRAM_SHA_256, {"carol": "carol-secret"})
    served = serve(secured.broker, *secured.sasl_target, "gateway.default_partitions=7")
    served.admin, served.broker_port = admin, int(secured.sasl_address.rpartition(":")[2])
    return served


@pytest.fixture(scope="module")
def hurried(sasl):
    """Another gateway at that listener, whose clients have little time."""
    given = (*sasl.given, f"gateway.decision_timeout_seconds={DECISION_MS / 1000}")
    soon = {"jobs.gateway.server._AUTHENTICATION_SECONDS": 2.0}
    with running_gateway(sasl.settings, sasl.folder / "hurried.log", *given, constants=soon) as gateway:
        yield gateway


def sides(sasl):
    """The broker and the gateway, by their ports."""
    return sasl.broker_port, sasl.gateway.port


def connected(port, user=None):
    client = wire_client(port)
    if user:
        client.authenticate(user, f"{user}-secret")
    return client


def test_operations_that_an_acl_denies_are_denied_through_the_gateway(sasl):
    """Each kind of mutation fails with the broker's own error and message, without a decision or a charge."""
    calls = [
        (19, 7, creation("bob-new", "free", "alice-stolen", partitions=1)),
        (37, 3, growth(bob_old=5, alice_old=5, nowhere=5)),
        (20, 6, deletion("bob-old", "alice-old", "nowhere", "bob-nowhere")),
        (3, 12, {"topics": [{"name": name, "topicId": bytes(16)} for name in ("bob-old", "alice-old", "new")]}),
    ]
    by_side = []
    for port in sides(sasl):
        with connected(port, "bob") as bob:
            answers = [bob.call(*call) for call in calls]
            by_side.append(
                [by_name(answer.get("topics") or answer.get("results") or answer["responses"]) for answer in answers]
            )
    direct, gateway = by_side
    assert gateway == direct
    assert {code for results in gateway[:3] for code, _ in results.values()} == {29, 3}
    assert [request for request in sasl.job.requests if request.user == "bob"] == []


@pytest.mark.parametrize("user", ["dave", "erin"])
@pytest.mark.parametrize("by", ["name", "id"])
def test_a_permission_on_the_cluster_that_covers_the_deletion_of_all_topics_is_charged(sasl, user, by):
    """Dave has All on the cluster, erin Delete. Without Describe on the topic its cost is not known, and it stays."""
    name = f"covered-{user}-{by}"
    with connected(sasl.broker_port, "admin") as admin, connected(sasl.gateway.port, user) as client:
        assert by_name(admin.call(19, 7, creation(name, partitions=7))["topics"]) == {name: (0, None)}
        topic = until(lambda: seen(admin, name))
        message = deletion(name if by == "name" else topic["topicId"])
        (hidden,) = client.call(20, 6, message)["responses"]
        assert (hidden["errorCode"], hidden["errorMessage"][:33]) == (29, "the number of its partitions is n")
        assert seen(admin, name)

        for future in sasl.admin.create_acls([acl(user, AclOperation.DESCRIBE, name)]).values():
            future.result(30)
        deleted = until(lambda: succeeded(client.call(20, 6, message)))
        assert (deleted["name"], deleted["topicId"]) == (name, topic["topicId"])
    charged = [[(topic.name, topic.partitions) for topic in request.topics] for request in sasl.job.requests]
    assert [topics for topics in charged if topics[0][0] == name] == [[(name, 7)]]


def seen(client, name):
    """Return a topic as a broker shows it; None if it does not."""
    (topic,) = client.call(3, 12, metadata(name))["topics"]
    return None if topic["errorCode"] else topic


def succeeded(answer):
    """Return the one result of a deletion that succeeded."""
    (result,) = answer["responses"]
    return None if result["errorCode"] else result


def test_a_hidden_default_number_of_partitions_is_learned_from_what_brokers_tell_others(sasl):
    """Frank may not describe configs: his topics cost the seven of the settings until alice is told what brokers do."""
    with connected(sasl.gateway.port, "frank") as frank, connected(sasl.gateway.port, "alice") as alice:
        for client, name in ((frank, "frank-0"), (frank, "frank-1"), (alice, "alice-told"), (frank, "frank-2")):
            assert by_name(client.call(19, 7, creation(name, partitions=-1))["topics"]) == {name: (0, None)}
    charged = [request.topics[0].partitions for request in sasl.job.requests if request.user == "frank"]
    assert charged == [7, 7, 1]
    assert "the brokers create topics with 1 partitions by default" in sasl.gateway.log.read_text()


def by_name(results):
    return {result["name"]: (result["errorCode"], result.get("errorMessage")) for result in results}


def test_a_client_has_the_same_permissions_through_the_gateway(sasl):
    """One request with both: what is allowed is charged and carried out."""
    with connected(sasl.gateway.port, "alice") as alice:
        answer = alice.call(19, 7, creation("alice-a", "other-a", partitions=2))
        assert {name: code for name, (code, _) in by_name(answer["topics"]).items()} == {"alice-a": 0, "other-a": 29}
        answer = alice.call(20, 6, deletion("alice-a", "bob-old"))
        assert {name: code for name, (code, _) in by_name(answer["responses"]).items()} == {"alice-a": 0, "bob-old": 29}
    charged = [[(topic.name, topic.partitions) for topic in request.topics] for request in sasl.job.requests[-2:]]
    assert charged == [[("alice-a", 2)], [("alice-a", 2)]]
    assert {request.user for request in sasl.job.requests[-2:]} == {"alice"}


LIBRDKAFKA = {
    "PLAIN": ("alice", {"sasl.username": "alice", "sasl.password": "alice-secret"}),
    "SCRAM-SHA-256": ("carol", {"sasl.username": "carol", "sasl.password": "carol-secret"}),
    "OAUTHBEARER": (
        "alice",
        {"enable.sasl.oauthbearer.unsecure.jwt": "true", "sasl.oauthbearer.config": "principal=alice"},
    ),
}


@pytest.mark.parametrize("mechanism", LIBRDKAFKA)
def test_a_client_has_the_principal_that_the_broker_authenticated(sasl, mechanism):
    """With librdkafka, the request for a decision has the client's principal and client-id."""
    user, config = LIBRDKAFKA[mechanism]
    name = f"{user}-{mechanism.lower()}"
    admin = AdminClient(
        {
            **QUIET,
            "bootstrap.servers": sasl.gateway.address,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": mechanism,
            "client.id": "librdkafka",
            **config,
        }
    )
    admin.create_topics([NewTopic(name, 3)])[name].result(30)
    until(lambda: name in admin.list_topics(timeout=10).topics)
    admin.create_partitions([NewPartitions(name, 5)])[name].result(30)
    admin.delete_topics([name])[name].result(30)
    calls = [(request.user, request.client_id, request.topics[0].partitions) for request in sasl.job.requests[-3:]]
    assert calls == [(user, "librdkafka", 3), (user, "librdkafka", 2), (user, "librdkafka", 5)]


def send_token(client, data):
    """Send a bare token, and return the broker's."""
    client.write(struct.pack(">i", len(data)) + data)
    return client.receive()


def with_bare_tokens(port):
    """Log in as kafka-python 2.0.2 and aiokafka 0.12 do, and other clients of their time."""
    client = wire_client(port)
    assert client.call(17, 0, {"mechanism": "PLAIN"})["errorCode"] == 0
    assert send_token(client, b"\0admin\0admin-secret") == b""
    return client


def test_a_mutation_after_bare_tokens_is_charged_to_their_user(sasl):
    with with_bare_tokens(sasl.gateway.port) as client:
        answer = client.call(19, 2, creation("old-made", partitions=3))
    assert [topic["errorCode"] for topic in answer["topics"]] == [0]
    request = sasl.job.requests[-1]
    assert (request.user, [(topic.name, topic.partitions) for topic in request.topics]) == ("admin", [("old-made", 3)])


def test_a_wrong_password_in_a_bare_token_closes_the_connection(sasl):
    for port in sides(sasl):
        with wire_client(port) as client:
            client.call(17, 0, {"mechanism": "PLAIN"})
            client.write(struct.pack(">i", 12) + b"\0admin\0wrong")
            assert is_closed(client.socket)


@pytest.mark.parametrize("version", range(4))
def test_metadata_of_all_topics_in_the_first_versions_is_that_of_the_broker(sasl, version):
    """Old clients request them whatever is offered, after bare tokens; in version 0 an empty list means all."""
    answers = []
    for port in sides(sasl):
        with with_bare_tokens(port) as client:
            answer = client.call(3, version, {"topics": None if version else []})
        assert {broker.pop("port") for broker in answer["brokers"]} == {port}
        answer["topics"].sort(key=lambda topic: topic["name"])
        answers.append(answer)
    assert answers[0] == answers[1]
    assert {"alice-old", "bob-old"} <= {topic["name"] for topic in answers[0]["topics"]}


def test_clients_that_do_not_authenticate_in_time_are_disconnected(hurried):
    """However they pass the time: with nothing, with a part of a request, or with requests that need no user."""
    written = (b"", b"\0\0\0\x20\0", b"\0\0\0\x0e\0\x12\0\0\0\0\0\1\0\0\0\0\0\0")
    clients = [hurried.connect(seconds=10) for _ in written]
    for client, data in zip(clients, written, strict=True):
        client.sendall(data)
    answered = []
    for client in clients:
        with client, client.makefile("rb") as received:
            answered.append(bool(received.read()))  # until the gateway ends the connection
    assert answered == [False, False, True]


def test_a_session_outlasts_its_decisions(sasl, hurried):
    """A client that reauthenticates in time loses no connection, although each decision takes long."""
    sasl.job.delay_seconds = 0.4  # the last one before the end of a session begins within it and ends after it
    created = 0
    try:
        with connected(hurried.port) as alice:
            until_ms = now_ms() + 1.5 * SESSION_MS
            while now_ms() < until_ms:
                alice.call(17, 1, {"mechanism": "PLAIN"})
                lifetime_ms = alice.call(36, 2, {"authBytes": b"\0alice\0alice-secret"})["sessionLifetimeMs"]
                assert lifetime_ms == SESSION_MS - DECISION_MS
                again_at = now_ms() + lifetime_ms
                while now_ms() < again_at:
                    answer = alice.call(19, 7, creation(f"alice-session-{created}", partitions=1))
                    assert answer["topics"][0]["errorCode"] == 0
                    created += 1
    finally:
        sasl.job.delay_seconds = 0.0
    assert created >= 3


def now_ms():
    return time.monotonic() * 1000
