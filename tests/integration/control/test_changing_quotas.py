"""Quotas that change while requests stream, and the same logs decided again."""

import json
import threading

from confluent_kafka import Producer

from jobs.enforce.query import start_enforce
from jobs.storage.files import DeploymentSession
from quota.kafka.quotas.log import read_log
from quota.kafka.quotas.writer import write_record
from quota.kafka.topics.preparation import prepare_topics
from quota.records.entity import QuotaEntity
from quota.records.quota_log import QuotaRecord, ResetRecord
from tests.support.clients import QUIET
from tests.support.deployment import with_sections
from tests.support.factories import request_json
from tests.support.topics import consume
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
