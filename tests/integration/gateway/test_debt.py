"""A client in debt sees the same at the gateway as at a broker that enforces its quota itself."""

from quota.records.entity import QuotaEntity
from tests.evidence.gateway.conformance.answers import ask
from tests.evidence.gateway.conformance.comparison import compare
from tests.evidence.gateway.conformance.hand_made import HAND_MADE, VERSIONS, overdrawing
from tests.evidence.gateway.conformance.sides import Side
from tests.support.gateway import protocol, wire_client
from tests.support.kafka_configs import set_quotas
from tests.support.wire.requests import creation, topic

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

    seen = [[each for request in VERSIONS for each in observed(side, *request)] for side in (direct, gateway)]

    assert [row for row in compare(HAND_MADE, *seen) if row.mismatch] == []
    told = [(each.seen.count(": 89 "), each.throttle_ms > 20_000) for each in seen[1]]
    lenient, strict = [(0, True)], [(0, False), (1, True)]
    assert told == [*4 * lenient, *2 * strict, *3 * lenient, *strict, *4 * lenient, *2 * strict]
