"""Kafka's own quota commands at the gateway: as at a broker, with the rate in the quota log."""

import json
import math

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)
from msgspec.structs import replace

from quota.kafka.quotas.log import read_log
from quota.kafka.quotas.writer import write_record
from quota.kafka.requests_and_answers import RequestWriter
from quota.records.entity import QuotaEntity
from quota.records.quota_log import Quota, QuotaRecord
from tests.support.broker import documented_acls
from tests.support.deployment import PARTS, as_options
from tests.support.factories import request_json
from tests.support.gateway import protocol, wire_client
from tests.support.kafka_configs import client_quotas, kafka_configs, remove_all_quotas
from tests.support.programs import run
from tests.support.waiting import until
from tests.support.wire.requests import creation

RATE, LIMIT = "controller_mutation_rate", "max_request_mutations"
PASSWORD = "gateway-secret"  # noqa: S105
DESCRIBE, ALTER = 48, 49
EXACT, DEFAULT, ANY = 0, 1, 2


@pytest.fixture(scope="module")
def front(serve, secured, tmp_path_factory):
    """A gateway whose own principal has the documented permissions, in front of a broker with an authorizer.

    A burst is one second of a rate. alice may describe quotas, bob may nothing, user1 may create topics.
    """
    named = {f"mutation-{part.replace('_', '-')}": f"client-quotas-{part}" for part in PARTS}
    secured.add_user("gateway", PASSWORD)
    secured.allow("gateway", [(kind, named[name], *more) for kind, name, *more in documented_acls()["gateway"]])
    secured.allow("alice", [("BROKER", "kafka-cluster", "LITERAL", "DESCRIBE_CONFIGS")])
    secured.allow("user1", [("TOPIC", "user1-", "PREFIXED", "CREATE")])
    password_file = tmp_path_factory.mktemp("password") / "password"
    password_file.write_text(PASSWORD)
    given = [*secured.options("gateway", password_file), *secured.sasl_target]
    served = serve(secured.broker, *given, quota={"window_num": 1})
    served.secured, served.broker = secured, secured.broker.address
    return served


@pytest.fixture(autouse=True)
def _no_quotas(front):
    """Each test begins without quotas, and leaves none at the broker, which other tests use, too."""
    remove_all_quotas(front.broker, protocol())
    for entity in logged(front):
        write_record(front.settings, QuotaRecord(entity, None))
    yield
    remove_all_quotas(front.broker, protocol())


def sides(front):
    """The ports of the broker and of the gateway, in this order; in between, the broker's quotas are removed."""
    yield int(front.secured.sasl_address.rpartition(":")[2])
    remove_all_quotas(front.broker, protocol())
    yield front.gateway.port


def call(port, key, message, user="admin", version=1):
    with wire_client(port) as client:
        client.authenticate(user, f"{user}-secret")
        return client.call(key, version, message)


def logged(front):
    """Return the quotas in the log by entity."""
    log = read_log(front.settings)
    return {change.entity: change.quota for change in log.timeline.configured(log.now)}


def altered(*entries, validate_only=False):
    """Return a request: entities as (name by type), each with its values by key, of which None removes one."""
    return {
        "entries": [
            {
                "entity": [{"entityType": kind, "entityName": name} for kind, name in names.items()],
                "ops": [{"key": key, "value": value or 0.0, "remove": value is None} for key, value in configs],
            }
            for names, *configs in entries
        ],
        "validateOnly": validate_only,
    }


def results(response):
    """Return error and message by entity."""
    errors = {}
    for entry in response["entries"]:
        names = {part["entityType"]: part["entityName"] for part in entry["entity"]}
        errors[json.dumps(names, sort_keys=True)] = entry["errorCode"], entry["errorMessage"]
    return errors


def described(port, *components, strict=False, version=1, user="admin"):
    """Return the quotas that match a filter of (type, match type, name): values by the names of the entity."""
    named = [{"entityType": kind, "matchType": match, "match": name} for kind, match, name in components]
    response = call(port, DESCRIBE, {"components": named, "strict": strict}, user, version)
    assert (response["errorCode"], response["throttleTimeMs"]) == (0, 0)
    quotas = {}
    for entry in response["entries"]:
        names = {part["entityType"]: part["entityName"] for part in entry["entity"]}
        quotas[json.dumps(names, sort_keys=True)] = {value["key"]: value["value"] for value in entry["values"]}
    return quotas


USER = {"user": "u"}
U = '{"user": "u"}'
POSITIVE = f"Quota {RATE} must be greater than 0"
INVALID = [
    ([(USER, (RATE, 0.0))], {U: (42, POSITIVE)}),
    ([(USER, (RATE, -1.0))], {U: (42, POSITIVE)}),
    ([(USER, (RATE, -math.inf))], {U: (42, f"Quota {RATE} must be a finite number")}),
    ([(USER, (RATE, math.inf))], {U: (42, f"Quota {RATE} must be a finite number")}),
    ([(USER, (RATE, math.nan))], {U: (42, f"Quota {RATE} must be a finite number")}),
    ([(USER, ("nonsense", 1.0))], {U: (42, "Invalid configuration key nonsense")}),
    ([(USER, (RATE, 1.0), ("nonsense", 1.0))], {U: (42, "Invalid configuration key nonsense")}),
    ([(USER, ("producer_byte_rate", 1024.0), (RATE, -1.0))], {U: (42, POSITIVE)}),
    (
        [(USER, (RATE, 5.0), ("producer_byte_rate", 0.5))],
        {U: (42, "producer_byte_rate cannot be a fractional value.")},
    ),
    (
        [({"ip": "192.0.2.1"}, (RATE, 5.0))],
        {'{"ip": "192.0.2.1"}': (42, f"Invalid configuration key {RATE}")},
    ),
    ([({"user": ""}, (RATE, 5.0))], {'{"user": ""}': (42, "Empty user not supported")}),
    ([({"group": "g"}, (RATE, 5.0))], {'{"group": "g"}': (42, "Unhandled client quota entity type: group")}),
    ([({}, (RATE, 5.0))], {"{}": (42, "Invalid empty client quota entity")}),
    ([], {}),
    ([(USER, (RATE, None))], {U: (0, None)}),  # there is none to be removed
    # a broker nevertheless sets the first value of an entity that is named twice
    *(
        (twice, {U: (42, "Ignoring duplicate entity ClientQuotaEntity(entries={user=u})")})
        for twice in (
            [(USER, (RATE, 1.0)), (USER, (RATE, 2.0))],
            [(USER, (RATE, 1.0)), (USER, ("producer_byte_rate", 2.0))],
            [(USER, (RATE, 1.0), (RATE, 2.0))],
        )
    ),
]


@pytest.mark.newest_kafka
def test_bad_requests_get_kafkas_own_errors(front):
    """At the gateway they change nothing, in both versions."""
    for port in sides(front):
        for version in (0, 1):
            answers = [results(call(port, ALTER, altered(*entries), version=version)) for entries, _ in INVALID]
            assert answers == [expected for _, expected in INVALID]
    assert described(front.gateway.port) == {}
    assert client_quotas(front.broker, protocol()) == {}


SET = altered(
    ({"user": "b"}, (RATE, 1.5), ("producer_byte_rate", 1024.0)),
    ({"user": None}, (RATE, 2.0)),
    ({"client-id": None}, (RATE, 3.0)),
    ({"user": None, "client-id": None}, (RATE, 4.0)),
    ({"user": "b", "client-id": "c"}, (RATE, 5.0)),
    ({"user": None, "client-id": "c"}, (RATE, 6.0)),
    ({"client-id": "c"}, ("request_percentage", 50.0)),
    ({"ip": "192.0.2.1"}, ("connection_creation_rate", 7.0)),
)
IS_SET = {
    '{"user": "b"}': {RATE: 1.5, "producer_byte_rate": 1024.0},
    '{"user": null}': {RATE: 2.0},
    '{"client-id": null}': {RATE: 3.0},
    '{"client-id": null, "user": null}': {RATE: 4.0},
    '{"client-id": "c", "user": "b"}': {RATE: 5.0},
    '{"client-id": "c", "user": null}': {RATE: 6.0},
    '{"client-id": "c"}': {"request_percentage": 50.0},
    '{"ip": "192.0.2.1"}': {"connection_creation_rate": 7.0},
}
RATES_OF = [
    # the filter, whether it is strict, and the rates of the entities that it finds; 50 and 7 are those of other keys
    ([("user", EXACT, "b")], False, [1.5, 5]),
    ([("user", EXACT, "b")], True, [1.5]),
    ([("user", DEFAULT, None)], False, [2, 4, 6]),
    ([("user", DEFAULT, None)], True, [2]),
    ([("user", ANY, None)], False, [1.5, 2, 4, 5, 6]),
    ([("user", ANY, None)], True, [1.5, 2]),
    ([("client-id", DEFAULT, None)], False, [3, 4]),
    ([("client-id", ANY, None)], True, [3, 50]),
    ([("user", EXACT, "b"), ("client-id", EXACT, "c")], True, [5]),
    ([("user", DEFAULT, None), ("client-id", ANY, None)], False, [4, 6]),
    ([("user", EXACT, "nobody")], False, []),
    ([("ip", ANY, None)], False, [7]),
    ([], True, []),
]


def test_quotas_are_set_described_and_removed_as_at_a_broker(front):
    """Rates and other quotas, defaults, pairs and IP addresses, with every kind of filter; the brokers hold no rate."""
    for port in sides(front):
        assert set(results(call(port, ALTER, SET)).values()) == {(0, None)}
        until(lambda port=port: described(port) == IS_SET)  # brokers learn of a change with a delay
        assert described(port, version=0) == IS_SET
        for components, strict, rates in RATES_OF:
            matching = described(port, *components, strict=strict).values()
            assert sorted(values.get(RATE) or max(values.values()) for values in matching) == rates
    own = client_quotas(front.broker, protocol())
    assert own == {
        "user-principal 'b'": {"producer_byte_rate": 1024.0},
        "client-id 'c'": {"request_percentage": 50.0},
        "ip '192.0.2.1'": {"connection_creation_rate": 7.0},
    }

    removal = altered(({"user": "b"}, (RATE, None)), ({"client-id": "c"}, ("request_percentage", None)))
    assert set(results(call(front.gateway.port, ALTER, removal)).values()) == {(0, None)}
    left = {**IS_SET, '{"user": "b"}': {"producer_byte_rate": 1024.0}}
    del left['{"client-id": "c"}']
    until(lambda: described(front.gateway.port) == left)


def test_validate_only_changes_nothing(front):
    request = altered((USER, (RATE, 5.0), ("producer_byte_rate", 1024.0)), validate_only=True)
    assert results(call(front.gateway.port, ALTER, request)) == {U: (0, None)}
    assert described(front.gateway.port) == {}
    assert logged(front) == {}


def test_only_the_rate_of_a_quota_changes_and_a_repeated_change_writes_nothing(front):
    """Kafka knows no other config of it. The author is the client's principal."""
    quota = Quota(5.0, 50.0, 60_000, shadow=True, max_request_mutations=80)
    write_record(front.settings, QuotaRecord.of(QuotaEntity("u"), quota))
    for _ in range(2):
        assert results(call(front.gateway.port, ALTER, altered((USER, (RATE, 7.0))))) == {U: (0, None)}
    for value, message in ((90.0, f"Invalid configuration key {LIMIT}"), (None, f"{LIMIT} can be altered only by")):
        code, refusal = results(call(front.gateway.port, ALTER, altered((USER, (RATE, 8.0), (LIMIT, value)))))[U]
        assert (code, refusal.startswith(message)) == (42, True)
    assert logged(front) == {QuotaEntity("u"): replace(quota, rate=7.0)}
    before, last = (entry.record for entry in read_log(front.settings, with_entries=True).entries[-2:])
    assert (last.altered_by, last.altered_configs, before.controller_mutation_rate) == ("admin", [RATE], 5.0)


def test_a_rate_of_the_brokers_is_described_until_it_is_altered_through_the_gateway(front):
    """The first alteration moves it to the quota log; the gateway's log warns of it once."""
    direct = int(front.secured.sasl_address.rpartition(":")[2])
    for user in ("u", "v"):
        call(direct, ALTER, altered(({"user": user}, (RATE, 9.0))))
    both = {U: {RATE: 9.0}, '{"user": "v"}': {RATE: 9.0}}
    until(lambda: described(front.gateway.port) == both)
    assert front.gateway.log.read_text().count("user-principal 'u': the brokers have a") == 1

    write_record(front.settings, QuotaRecord(QuotaEntity("u"), 4.0))
    assert described(front.gateway.port) == {U: {RATE: 4.0}, '{"user": "v"}': {RATE: 9.0}}
    moves = altered((USER, (RATE, 3.0)), ({"user": "v"}, (RATE, None)))
    assert set(results(call(front.gateway.port, ALTER, moves)).values()) == {(0, None)}
    until(lambda: described(direct) == {})
    assert described(front.gateway.port) == {U: {RATE: 3.0}}
    assert front.gateway.log.read_text().count("user-principal 'u': the brokers have a") == 1


def test_quotas_need_the_permissions_that_they_need_at_a_broker(front):
    """bob may do nothing, and alice may describe; both get the broker's own error, and nothing changes."""
    by_side = []
    for port in sides(front):
        answers = [call(port, ALTER, altered((USER, (RATE, 5.0))), user) for user in ("alice", "bob")]
        answers.append(call(port, DESCRIBE, {"components": [], "strict": False}, "bob"))
        by_side.append(answers)
        assert described(port, user="alice") == {}
    direct, gateway = by_side
    assert gateway == direct
    assert [answer["entries"][0]["errorCode"] for answer in gateway[:2]] == [31, 31]
    assert gateway[2]["errorCode"] == 31
    assert logged(front) == {}


def test_a_log_that_cannot_be_written_is_an_error_and_nothing_is_changed(front):
    """Here the gateway lacks the permission. Other quotas do not need the log, except those of the same entity."""
    topic = front.settings.topics.quotas
    binding = (ResourceType.TOPIC, topic, ResourcePatternType.LITERAL, "User:gateway", "*", AclOperation.WRITE)
    acl = AclBinding(*binding, AclPermissionType.ALLOW)
    (removed,) = front.secured.admin.delete_acls([AclBindingFilter(*binding, AclPermissionType.ALLOW)]).values()
    assert len(removed.result(30)) == 1
    request = altered((USER, (RATE, 5.0), ("producer_byte_rate", 1.0)), ({"user": "v"}, ("producer_byte_rate", 2.0)))
    try:
        errors = results(call(front.gateway.port, ALTER, request))
    finally:
        front.secured.admin.create_acls([acl])[acl].result(30)
    code, message = errors.pop(U)
    assert code == 7  # REQUEST_TIMED_OUT, which clients may retry
    assert message.startswith(f"{RATE} is in the quota log, which may not have changed: the change is not set")
    assert "authorization failed" in message
    assert errors == {'{"user": "v"}': (0, None)}
    until(lambda: described(front.gateway.port) == {'{"user": "v"}': {"producer_byte_rate": 2.0}})
    assert "a client cannot use the quota log: the change is not set" in front.gateway.log.read_text()
    assert set(results(call(front.gateway.port, ALTER, request)).values()) == {(0, None)}


def test_the_commands_of_kip_599_with_kafkas_own_tool(front, tmp_path):
    """Word for word, but for the config's name, which its example misspells; the history says who set the quota."""
    config = tmp_path / "admin.properties"
    login = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="admin" password="admin-secret"'
    config.write_text(f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.jaas.config={login};\n")
    whose = ("--entity-type", "users", "--entity-name", "user1", "--entity-type", "clients", "--entity-name", "clientA")
    tool = (front.gateway.address, "--command-config", str(config))

    said = kafka_configs(*tool, "--alter", "--add-config", f"{RATE}=10", *whose)
    assert said == "Completed updating config for user user1.\n"
    said = kafka_configs(*tool, "--describe", *whose)
    assert said == "Quota configs for user-principal 'user1', client-id 'clientA' are controller_mutation_rate=10.0\n"

    front.job.read_quotas()
    writer = RequestWriter(front.settings)
    writer.send_bytes(front.settings.topics.requests, request_json(1010, user="user1", client_id="clientA"), b"user1")
    writer.flush(30)
    until(lambda: front.job.decisions)  # of a burst of 10, and owes the mutations of 100 s
    with wire_client(front.gateway.port, "clientA") as client:
        client.authenticate("user1", "user1-secret")
        rejected = client.call(19, 7, creation("user1-topic"))
    assert rejected["topics"][0]["errorCode"] == 89
    assert 40_000 < rejected["throttleTimeMs"] <= 100_000

    named = ("--user", "user1", "--client", "clientA")
    done = run(*as_options(front.settings), "quotas", "history", *named, "--output", "json", cwd=tmp_path)
    change = json.loads(done.stdout)["changes"][-1]
    assert (change["entity"], change["after"]) == ({"user": "user1", "client-id": "clientA"}, {RATE: 10.0})
    assert (change["altered_by"], change["comment"]) == ("admin", "AlterClientQuotas at the gateway")
