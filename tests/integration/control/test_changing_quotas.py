"""Quotas that change while requests stream, a change that waits for a replica, and the same logs decided again."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from confluent_kafka import Producer

from jobs.enforce.query import start_enforce
from jobs.sandbox.broker import with_plaintext_cluster
from jobs.storage.files import DeploymentSession
from quota.kafka.quotas.log import KafkaQuotas, read_log
from quota.kafka.quotas.writer import write_record
from quota.kafka.timing import now_ms
from quota.kafka.topics.preparation import prepare_topics
from quota.kafka.topics.topic_admin import TopicAdmin
from quota.records.entity import QuotaEntity
from quota.records.quota_log import QuotaRecord, ResetRecord
from quota.settings.connection import Connection
from tests.support.cluster import Cluster
from tests.support.deployment import with_sections
from tests.support.factories import request_json
from tests.support.programs import paused
from tests.support.topics import QUIET, consume
from tests.support.waiting import finish

REQUESTS = 3_000
USERS = ("alice", "bob")
CHANGES = [
    QuotaRecord(QuotaEntity("alice"), 50.0),
    QuotaRecord(QuotaEntity(None), 20.0, max_debt_ms=500),
    QuotaRecord(QuotaEntity("alice"), 500.0, 9.0),
    ResetRecord({"user": "bob"}),
    QuotaRecord(QuotaEntity("alice", "app"), 70.0),
    QuotaRecord(QuotaEntity("alice", "app"), None),
    QuotaRecord(QuotaEntity(None), 30.0, shadow=True),
]


def stream(settings, meanwhile):
    """Send requests of two users, and carry out a step of `meanwhile` now and then."""
    producer = Producer({**QUIET, "bootstrap.servers": settings.kafka.bootstrap_servers, "linger.ms": 1})
    every = REQUESTS // (len(meanwhile) + 1)
    for number in range(REQUESTS):
        user = USERS[number % 2]
        value = request_json(1, request_id=f"r{number}", user=user, client_id="app")
        producer.produce(settings.topics.requests, value, user.encode(), partition=number % 2)
        if number % every == every - 1 and meanwhile:
            producer.poll(0.02)
            change = threading.Thread(target=write_record, args=(settings, meanwhile.pop(0)))
            change.start()
            producer.poll(0.02)
            change.join()
    assert producer.flush(30) == 0


def test_each_request_is_decided_by_the_quota_at_its_timestamp_also_in_a_replay(spark, deployment):
    """Thousands of requests surround seven changes; the test looks up the quota in force in the log itself.

    Then the same log is decided from scratch in one batch, and the decisions are the same bytes.
    """
    prepare_topics(deployment)
    query = start_enforce(DeploymentSession.on(spark, deployment))
    try:
        stream(deployment, list(CHANGES))
        decided = consume(deployment, deployment.topics.decisions, REQUESTS)
    finally:
        query.stop()
    assert len(decided) == REQUESTS

    changes = read_log(deployment, with_entries=True).entries
    assert [entry.record for entry in changes] == CHANGES

    def in_force(entity, at):
        held = [
            entry.record.controller_mutation_rate
            for entry in changes
            if isinstance(entry.record, QuotaRecord) and entry.record.entity == entity and entry.timestamp <= at
        ]
        return held[-1] if held else None

    for _, decision in decided:
        user, at = decision["user"], decision["timestamp"]
        levels = [QuotaEntity(user, "app"), QuotaEntity(user), QuotaEntity(None)]
        rates = [rate for rate in (in_force(entity, at) for entity in levels) if rate is not None]
        assert decision["quota"] == (rates[0] if rates else None)
    applied = {(decision["quota"], decision["user_tag"], decision["client_tag"]) for _, decision in decided}
    expected = {(50, "alice", ""), (500, "alice", ""), (70, "alice", "app"), (20, "bob", ""), (30, "bob", "")}
    assert expected <= applied

    root, decisions = f"{deployment.storage.root}/again", f"{deployment.topics.decisions}-again"
    again = with_sections(deployment, storage={"root": root}, topics={"decisions": decisions})
    prepare_topics(again)
    finish(start_enforce(DeploymentSession.on(spark, again), once=True))
    repeated = consume(again, again.topics.decisions, REQUESTS)
    first, second = (
        {decision["decision_id"]: json.dumps(decision) for _, decision in run} for run in (decided, repeated)
    )
    assert first == second


ANN = QuotaEntity("ann")
PAUSE_SECONDS = 6
"""Longer than a replica may take to respond."""
PATIENT = "broker.session.timeout.ms=60000\nreplica.lag.time.max.ms=60000\n"
"""A paused node stays in sync for a minute: by default, nobody waits for its replica after nine seconds."""


@pytest.fixture(scope="module")
def cluster(base_settings, tmp_path_factory):
    with Cluster(tmp_path_factory.mktemp("brokers"), base_settings.broker.jars, PATIENT) as cluster:
        prepare_topics(with_plaintext_cluster(base_settings, cluster.address))
        cluster.wait_until_in_sync()
        yield cluster


def test_on_three_brokers_each_topic_is_held_three_times(cluster):
    topics = TopicAdmin(Connection(cluster.address), 30).layout().topics
    own = {name: topic.replication_factor for name, topic in topics.items() if not name.startswith("__")}
    assert own == dict.fromkeys(
        (f"mutation-{name}" for name in ("requests", "decisions", "dead-letters", "quotas", "results", "positions")), 3
    )


def test_a_request_is_not_decided_before_a_change_that_waits_for_a_replica(cluster, base_settings):
    """The leader has stamped the change, and shows it once the replica responds again: its requests wait for it."""
    settings = with_plaintext_cluster(base_settings, cluster.address)
    topic = settings.topics.quotas
    quotas = KafkaQuotas.from_settings(settings, 60)
    assert quotas.read_until(now_ms()).timeline.latest(ANN, now_ms()) is None

    producer = Producer({**QUIET, "bootstrap.servers": cluster.address, "acks": "1"})
    producer.list_topics(topic, 30)  # it must not ask the stopped node who leads, or still have to connect
    producer.produce(topic, b'{"entity":{"user":"bob"},"controller_mutation_rate":1.0}', b'{"user":"bob"}')
    assert producer.flush(30) == 0
    layout = TopicAdmin(Connection(cluster.address), 30).layout()
    follower = cluster.nodes[layout.topics[topic].partitions[0].leader % 3]
    with ThreadPoolExecutor(1) as pool:
        with paused(follower.pid):
            producer.produce(topic, b'{"entity":{"user":"ann"},"controller_mutation_rate":1.0}', b'{"user":"ann"}')
            assert producer.flush(30) == 0
            stamped = now_ms()
            decided = pool.submit(quotas.read_until, stamped)
            with pytest.raises(TimeoutError):
                decided.result(PAUSE_SECONDS)
        assert decided.result(60).timeline.latest(ANN, stamped).quota.rate == 1.0
