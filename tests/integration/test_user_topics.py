"""Users by the topics that their requests come in, and records that their producers have stamped."""

import json

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from jobs.deployment import claim_storage
from jobs.enforce import start_enforce
from jobs.user_topics import UserTopicsWatch
from quota.entity import QuotaEntity
from quota.errors import ClusterError, MutationQuotaError
from quota.kafka.quota_log import read_log
from quota.kafka.quota_store import write_record
from quota.kafka.topics import prepare_topics
from quota.kafka.user_topics import UserTopics
from quota.log_record import QuotaRecord
from tests.factories import request_json
from tests.integration.test_pipeline import DEADLINE_SECONDS, consume, produce
from tests.waiting import until


def admin_of(settings):
    return AdminClient({"bootstrap.servers": settings.kafka.bootstrap_servers})


def delete(settings, *topics):
    admin = admin_of(settings)
    for future in admin.delete_topics(list(topics)).values():
        future.result(DEADLINE_SECONDS)


def stamped_by_producers(settings, topic):
    """Have a topic take its producers' time from now on."""
    entry = ConfigEntry("message.timestamp.type", "CreateTime", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    admin = admin_of(settings)
    (future,) = admin.incremental_alter_configs([resource]).values()
    future.result(DEADLINE_SECONDS)


def nameless(*partitions):
    """A request that names no user."""
    request = json.loads(request_json(*partitions))
    del request["user"]
    return json.dumps(request).encode()


@pytest.fixture
def by_topic(deployment):
    """A deployment where topics tell users; none is left behind, because others count topics with a dot."""
    topics = deployment.topics.model_copy(update={"identity": "topic"})
    settings = deployment.model_copy(update={"topics": topics})
    prepare_topics(settings)
    yield settings
    left = [
        name for name in admin_of(settings).list_topics(timeout=10).topics if name.startswith(f"{topics.requests}.")
    ]
    if left:
        delete(settings, *left)


def test_a_user_is_who_the_topic_says_also_of_a_topic_that_comes_later(spark, by_topic):
    """Mallory names alice, and alice's bucket stays as it was; carol's topic is made while the job runs."""
    topics = by_topic.topics
    for user in ("alice", "mallory", "carol"):
        write_record(by_topic, QuotaRecord(QuotaEntity(user), 1.0))
    UserTopics(by_topic).prepare(["alice", "mallory"])
    query = start_enforce(spark, by_topic)
    try:
        produce(by_topic, topics.requests_of("mallory"), request_json(60), nameless(13), key=b"alice")
        produce(by_topic, topics.requests_of("alice"), request_json(1))
        (_, lie), *_ = consume(by_topic, topics.dead_letters, 1)
        consume(by_topic, topics.decisions, 2)
        UserTopics(by_topic).prepare(["carol"])
        produce(by_topic, topics.requests_of("carol"), nameless(12))
        decided = {each["user"]: each for _, each in consume(by_topic, topics.decisions, 3)}
    finally:
        query.stop()
    assert lie["error"] == f"user: not the one whose topic {topics.requests}.mallory is (value: 'alice')"
    assert {user: (each["tokens"], each["quota_entity"]) for user, each in decided.items()} == {
        "alice": (10.0, {"user": "alice"}),
        "mallory": (-2.0, {"user": "mallory"}),
        "carol": (-1.0, {"user": "carol"}),
    }
