"""What is charged of mutations that race, are repeated, or come while nothing is decided; and what a debt is."""

import time
from contextlib import ExitStack

import pytest

from quota.errors import BadInput
from quota.kafka.admin import QuotaAdminClient
from quota.records.entity import QuotaEntity
from tests.evidence.gateway.conformance.comparison import compare
from tests.evidence.gateway.conformance.hand_made import HAND_MADE, VERSIONS, ask, overdrawing
from tests.evidence.gateway.conformance.sides import Side
from tests.support.gateway import protocol, running_gateway, start_gateway, wire_client
from tests.support.kafka_configs import set_quotas
from tests.support.topics import QUIET
from tests.support.waiting import until
from tests.support.wire.requests import creation, deletion, growth, metadata, topic

LIMIT_SECONDS = 4.0
"""Longer than a decision takes on a busy machine."""
OPTIONS = (f"gateway.decision_timeout_seconds={LIMIT_SECONDS}",)


def errors(answer):
    (results,) = (answer[field] for field in ("topics", "results", "responses") if field in answer)
    return [result["errorCode"] for result in results]


@pytest.fixture
def tenant(plain, request):
    """A client-id of this test's own, with one mutation a second: a burst of eleven."""
    name = request.node.name.replace("[", "-").rstrip("]").replace("_", "-").removeprefix("test-")[:80]
    plain.job.set_quota(QuotaEntity(client_id=name), 1)
    yield name
    plain.job.silent, plain.job.delay_seconds = False, 0.0


def paid(plain, client_id):
    """Return the mutations that a client was charged for: the topics and partitions of each decision."""
    decisions = [decision for decision in plain.job.decisions if decision.client_id == client_id]
    withdrawn = {decision.withdraws.decision_id for decision in decisions if decision.withdraws}
    decisions = [
        decision
        for decision in decisions
        if decision.repeats is None and not decision.validate_only and decision.decision_id not in withdrawn
    ]
    admitted = [
        [(topic.name, topic.partitions) for topic in decision.topics if not topic.error_code] for decision in decisions
    ]
    return [topics for topics in admitted if topics]


def is_seen(client, name, partitions):
    """Return whether a broker shows a topic with as many partitions."""
    (topic,) = client.call(3, 12, metadata(name))["topics"]
    return not topic["errorCode"] and len(topic["partitions"]) == partitions


@pytest.mark.parametrize("version", [4, 7])
def test_an_outage_charges_nobody_for_what_does_not_happen(plain, tenant, version):
    """One is tried, whatever is requested, and withdrawn; the job decides both when it is back."""
    plain.job.silent = True
    before = plain.job.taken
    with wire_client(plain.gateway.port, tenant) as client:
        assert errors(client.call(19, version, creation(f"{tenant}-0", partitions=10))) == [7]
        begun = time.monotonic()
        codes = [errors(client.call(19, version, creation(f"{tenant}-{n}", partitions=10))) for n in range(20)]
        assert (codes, time.monotonic() - begun < LIMIT_SECONDS) == ([[7]] * 20, True)
        until(lambda: plain.job.taken > before + 1)
        plain.job.silent = False
        until(
            lambda: [
                decision for decision in plain.job.decisions if decision.client_id == tenant and decision.withdraws
            ]
        )
        assert paid(plain, tenant) == []
        answer = until(lambda: succeeded(client, version, creation(f"{tenant}-0", partitions=10)))
        assert answer["throttleTimeMs"] == 0
        assert paid(plain, tenant) == [[(f"{tenant}-0", 10)]]
        assert errors(client.call(19, version, creation(f"{tenant}-1", partitions=1))) == [0]


def test_a_permissive_client_is_held_for_its_debt_also_at_another_gateway(plain, tenant, tmp_path):
    """Thirteen partitions leave a debt of two seconds, for which its next connection waits, wherever it leads."""
    with running_gateway(plain.settings, tmp_path / "another.log", *plain.given) as another:
        with wire_client(plain.gateway.port, tenant) as client:
            answer = client.call(19, 4, creation(tenant, partitions=13))
        begun = time.monotonic()
        with wire_client(another.port, tenant) as client:
            assert errors(client.call(19, 4, creation(f"{tenant}-next", partitions=1))) == [0]
        assert time.monotonic() - begun > answer["throttleTimeMs"] / 1000 - 0.5 > 0.5


def succeeded(client, version, message):
    """Return the answer to a creation that succeeded; None if it failed."""
    answer = client.call(19, version, message)
    return answer if errors(answer) == [0] else None


@pytest.mark.parametrize("version", [4, 7])
def test_ten_that_create_a_topic_at_once_are_charged_once(plain, tenant, version):
    """As at a broker: one creates it, and the others learn that it exists."""
    plain.job.delay_seconds = 0.1
    with ExitStack() as stack:
        ten = [stack.enter_context(wire_client(plain.gateway.port, tenant)) for _ in range(10)]
        for client in ten:
            client.write(client.frame(19, version, creation(tenant, partitions=10)))
        answers = [client.read()[0] for client in ten]
        assert sorted(code for answer in answers for code in errors(answer)) == [0] + [36] * 9
        assert {answer["throttleTimeMs"] for answer in answers} == {0}
        assert paid(plain, tenant) == [[(tenant, 10)]]


@pytest.mark.parametrize("version", [4, 7])
def test_a_client_with_too_little_time_is_charged_for_no_attempt(plain, tenant, version):
    """Decisions take 1.4 s, and it waits for 0.12 s: thirty attempts for topics of five partitions."""
    plain.job.delay_seconds = 1.4
    with wire_client(plain.gateway.port, tenant) as client:
        for number in range(3):
            assert errors(client.call(19, version, creation(f"{tenant}-slow-{number}", partitions=1))) == [0]
        attempts = [creation(f"{tenant}-{number}", partitions=5, timeoutMs=150) for number in range(30)]
        assert [errors(client.call(19, version, attempt)) for attempt in attempts] == [[7]] * 30
        plain.job.delay_seconds = 0.0
        answer = client.call(19, version, creation(tenant, partitions=1))
        assert (errors(answer), answer["throttleTimeMs"]) == ([0], 0)
    assert paid(plain, tenant)[3:] == [[(tenant, 1)]]


@pytest.mark.parametrize("is_decided", [True, False])
def test_a_creation_that_a_killed_gateway_has_requested_is_charged_once(plain, tenant, tmp_path, is_decided):
    """Its client tries again: at another gateway once it is decided, or before that at one that is started then."""
    plain.job.silent = True
    before = plain.job.taken
    killed = start_gateway(plain.settings, tmp_path / "killed.log", *OPTIONS)
    try:
        with wire_client(killed.port, tenant) as client:
            client.write(client.frame(19, 7, creation(tenant, partitions=10)))
            until(lambda: plain.job.taken > before)
    finally:
        killed.process.kill()
        killed.process.wait()
    plain.job.silent = not is_decided
    if is_decided:
        until(lambda: paid(plain, tenant))
        port = plain.gateway.port
        with wire_client(port, "later") as later:  # whose decision is behind that one
            assert errors(later.call(19, 7, creation(f"{tenant}-later", partitions=1))) == [0]
    with ExitStack() as stack:
        if not is_decided:
            port = stack.enter_context(running_gateway(plain.settings, tmp_path / "next.log", *OPTIONS)).port
        client = stack.enter_context(wire_client(port, tenant))
        client.write(client.frame(19, 7, creation(tenant, partitions=10)))
        until(lambda: is_decided or plain.job.taken > before + 1)
        plain.job.silent = False
        assert errors(client.read()[0]) == [0]
    assert paid(plain, tenant) == [[(tenant, 10)]]


@pytest.mark.parametrize("timeout_ms", [0, -1])
def test_a_request_without_time_is_not_charged(plain, tenant, timeout_ms):
    """The broker's error is the same: such a request fails there."""
    with wire_client(plain.gateway.port, tenant) as client, wire_client(plain.broker.port, tenant) as direct:
        assert errors(direct.call(19, 7, creation(tenant, partitions=1))) == [0]
        until(lambda: is_seen(client, tenant, 1))
        for key, version, message in (
            (19, 7, creation("never")),
            (37, 3, growth(**{tenant: 5})),
            (20, 6, deletion(tenant)),
        ):
            codes = [errors(side.call(key, version, {**message, "timeoutMs": timeout_ms})) for side in (client, direct)]
            assert codes == [[7], [7]]
    assert paid(plain, tenant) == []


def test_a_topic_that_grows_or_is_made_again_before_its_deletion_is_decided_stays(plain, tenant):
    """Elsewhere, at the broker. The next deletion of the one that has grown is charged for all of it."""
    with wire_client(plain.gateway.port, tenant) as client, wire_client(plain.broker.port, "elsewhere") as direct:
        for name in ("grows", "again"):
            assert errors(direct.call(19, 7, creation(f"{tenant}-{name}", partitions=1))) == [0]
        until(lambda: all(is_seen(client, f"{tenant}-{name}", 1) for name in ("grows", "again")))
        plain.job.silent = True
        before = plain.job.taken
        client.write(client.frame(20, 6, deletion(f"{tenant}-grows", f"{tenant}-again")))
        until(lambda: plain.job.taken > before)
        direct.call(37, 3, growth(**{f"{tenant}-grows": 4}))
        direct.call(20, 6, deletion(f"{tenant}-again"))
        until(lambda: errors(direct.call(19, 7, creation(f"{tenant}-again", partitions=5))) == [0])
        until(lambda: is_seen(direct, f"{tenant}-grows", 4))
        plain.job.silent = False
        answer, _ = client.read()
        codes = {topic["name"]: topic["errorCode"] for topic in answer["responses"]}
        assert codes == {f"{tenant}-grows": 7, f"{tenant}-again": 3}
        until(lambda: is_seen(direct, f"{tenant}-again", 5))
        assert is_seen(direct, f"{tenant}-grows", 4)
        assert errors(client.call(20, 6, deletion(f"{tenant}-grows"))) == [0]
    assert paid(plain, tenant)[-1] == [(f"{tenant}-grows", 4)]


@pytest.mark.parametrize("racers", [1, 10])
def test_deletions_in_a_race_are_charged_once(plain, tenant, racers):
    """Five in each connection at once, again and again, while the topic is created: one of each is charged."""
    plain.job.set_quota(QuotaEntity(client_id=tenant), 10_000)
    with ExitStack() as stack:
        clients = [stack.enter_context(wire_client(plain.gateway.port, tenant)) for _ in range(racers)]
        maker = stack.enter_context(wire_client(plain.gateway.port, "maker"))
        for number in range(5):
            assert errors(maker.call(19, 7, creation(tenant, partitions=20))) == [0], number
            for client in clients:
                client.write(b"".join(client.frame(20, 6, deletion(tenant)) for _ in range(5)))
            codes = [errors(client.read()[0]) for client in clients for _ in range(5)]
            assert sorted(codes) == [[0]] + [[3]] * (5 * racers - 1)
    assert paid(plain, tenant) == [[(tenant, 20)]] * 5


def test_a_client_that_requests_decisions_itself_is_told_that_this_is_a_gateway(plain, tenant):
    """Nothing is decided for it, by itself or by the gateway."""
    with pytest.raises(BadInput, match=rf"^{plain.gateway.address} is a gateway, which requests decisions itself"):
        QuotaAdminClient({**QUIET, "bootstrap.servers": plain.gateway.address, "client.id": tenant})
    assert paid(plain, tenant) == []


RATE = 0.25
"""A burst of 2.75: a request of eleven leaves a debt of 33 s, which a busy machine does not pay off meanwhile."""
STRICT = {19: 6, 37: 3, 20: 5}
"""The first version that knows error 89, by the key of the request."""


def observed(side, key, version):
    """Return what a client sees that overdraws its bucket; if it is not muted then, also what it sees in debt."""
    requests = overdrawing(side, key, version)[: 2 if version >= STRICT[key] else 1]
    with wire_client(side.port, side.topic(f"{key}-{version}")) as client:
        return [ask(client, side, f"{key} v{version}", request) for request in requests]


def test_a_client_in_debt_is_told_what_a_broker_tells_in_each_version(plain):
    """Clients that know error 89 are rejected with it; earlier ones are told how long they are muted."""
    direct, gateway = Side("direct", plain.broker.port), Side("gateway", plain.gateway.port)
    entities = [{"clients": direct.topic(f"{key}-{version}")} for key, version in VERSIONS]
    set_quotas(plain.broker.address, protocol(), *entities, controller_mutation_rate=RATE)
    for key, version in VERSIONS:
        plain.job.set_quota(QuotaEntity(client_id=gateway.topic(f"{key}-{version}")), RATE)
    topics = [topic(side.topic(name), count) for side in (direct, gateway) for name, count in HAND_MADE.topics.items()]
    with wire_client(plain.broker.port, "maker") as maker:
        assert {made["errorCode"] for made in maker.call(19, 7, creation(*topics))["topics"]} == {0}
        # The quotas are in force then, too: a busy broker learns of both later than its controller.
        until(lambda: all(is_seen(maker, made["name"], made["numPartitions"]) for made in topics))

    seen = [[each for request in VERSIONS for each in observed(side, *request)] for side in (direct, gateway)]

    assert [row for row in compare(HAND_MADE, *seen) if row.mismatch] == []
    told = [(each.seen.count(": 89 "), each.throttle_ms > 20_000) for each in seen[1]]
    lenient, strict = [(0, True)], [(0, False), (1, True)]
    assert told == [*4 * lenient, *2 * strict, *3 * lenient, *strict, *4 * lenient, *2 * strict]
