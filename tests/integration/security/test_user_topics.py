"""Users by the topics that their requests come in, and records that their producers have stamped."""

import json
import time
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic, ResourceType

from jobs.audit.query import start_audit
from jobs.cli.user_topics import acl_line
from jobs.enforce.query import start_enforce
from jobs.query_names import ENFORCE
from jobs.services.monitors import UserTopicsMonitor
from jobs.storage.deployment import TopicGone, claim_storage
from jobs.storage.files import DeploymentSession, open_files
from quota.admission.identity import request_topic
from quota.admission.policy import Policy
from quota.errors import ClusterError, MutationQuotaError
from quota.kafka.admin.client import QuotaAdminClient
from quota.kafka.dead_letters import read_dead_letters, send, valid_requests
from quota.kafka.quotas.log import read_log
from quota.kafka.quotas.writer import write_record
from quota.kafka.requests_and_answers import RequestWriter
from quota.kafka.topics.preparation import UserTopics, prepare_topics
from quota.kafka.topics.topic_admin import TopicAdmin
from quota.records.entity import QuotaEntity
from quota.records.quota_log import QuotaRecord
from quota.records.request import read_request
from quota.settings.storage import checkpoint_folder
from schemas.buckets import STATE_VERSION
from tests.support.deployment import with_sections
from tests.support.factories import request_json
from tests.support.tables import read_table
from tests.support.topics import DEADLINE_SECONDS, QUIET, admin_of, consume, consume_all, open_transaction, produce
from tests.support.waiting import finish, until

HALF_AN_HOUR_MS = 30 * 60 * 1000
BY_TOPIC = ("--set", "topics.identity=topic")


def create(settings, topic, **config):
    admin = admin_of(settings)
    admin.create_topics([NewTopic(topic, 1, 1, config=config)])[topic].result(DEADLINE_SECONDS)
    until(lambda: topic in admin.list_topics(timeout=10).topics)


def delete(settings, *topics):
    admin = admin_of(settings)
    for future in (admin.delete_topics(list(topics)) if topics else {}).values():
        future.result(DEADLINE_SECONDS)
    until(lambda: not set(topics) & admin.list_topics(timeout=10).topics.keys())


def timestamp_type(settings, topic):
    admin = admin_of(settings)
    (future,) = admin.describe_configs([ConfigResource(ResourceType.TOPIC, topic)]).values()
    return future.result(DEADLINE_SECONDS)["message.timestamp.type"].value


def stamp(settings, topic, by):
    """Change the timestamp type of a topic from now on."""
    entry = ConfigEntry("message.timestamp.type", by, incremental_operation=AlterConfigOpType.SET)
    admin = admin_of(settings)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    (future,) = admin.incremental_alter_configs([resource]).values()
    future.result(DEADLINE_SECONDS)
    until(lambda: timestamp_type(settings, topic) == by)


def nameless(*partitions):
    """A request that names no user."""
    request = json.loads(request_json(*partitions))
    del request["user"]
    return json.dumps(request).encode()


@pytest.fixture
def by_topic(deployment):
    """A deployment whose topics identify users; its topics are deleted, because others count topics with a dot."""
    settings = with_sections(deployment, topics={"identity": "topic"})
    prepare_topics(settings)
    yield settings
    there = admin_of(settings).list_topics(timeout=10).topics
    delete(settings, *[name for name in there if name.startswith(settings.topics.requests)])


def monitor(spark, settings):
    return UserTopicsMonitor(open_files(spark, settings), settings, TopicAdmin(settings.kafka.connection, 10))


def test_a_topic_determines_its_user_also_if_it_is_created_later(spark, by_topic):
    """Mallory names alice, and alice's bucket stays unchanged; carol's topic is created while the job runs.

    Dora leaves a transaction open on her topic, which holds up nobody else.
    """
    topics = by_topic.topics
    for user in ("alice", "mallory", "carol"):
        write_record(by_topic, QuotaRecord(QuotaEntity(user), 1.0))
    UserTopics(by_topic).prepare(["alice", "mallory", "dora"])
    create(by_topic, topics.requests)  # it belongs to no user
    left_open = open_transaction(by_topic, request_topic("dora", topics), request_json(1, user="dora"))
    query = start_enforce(DeploymentSession.on(spark, by_topic))
    try:
        produce(by_topic, topics.requests, request_json(5))
        produce(by_topic, request_topic("mallory", topics), request_json(60), nameless(13), key=b"alice")
        produce(by_topic, request_topic("alice", topics), request_json(1))
        consume(by_topic, topics.decisions, 2)
        UserTopics(by_topic).prepare(["carol"])
        writer = RequestWriter(by_topic)
        writer.send(read_request(request_json(12, user="carol")))
        writer.flush(DEADLINE_SECONDS)
        consume(by_topic, topics.decisions, 3)

        (lie,) = read_dead_letters(by_topic)
        corrected = [(lie, request_json(0, user="mallory"))]
        valid_requests(corrected, Policy.of(by_topic))
        send(by_topic, corrected)
        decided = [decision for _, decision in consume(by_topic, topics.decisions, 4)]
    finally:
        left_open.abort_transaction()
        query.stop()
    assert lie.letter.error == f"user: the topic {topics.requests}.mallory belongs to another user (value: 'alice')"
    assert sorted(decision["user"] for decision in decided) == ["alice", "carol", "mallory", "mallory"]
    assert all(decision["source"]["topic"] == f"{topics.requests}.{decision['user']}" for decision in decided)
    assert all(decision["quota_entity"] == {"user": decision["user"]} for decision in decided)
    tokens = {(decision["user"], decision["tokens"]) for decision in decided}
    assert tokens > {("alice", 10.0), ("mallory", -2.0), ("carol", -1.0)}


def test_a_topic_changed_to_producers_time_while_the_job_runs_adds_no_tokens(spark, deployment):
    """The debt of one lasts 1000 s; a request stamped half an hour later is a dead letter, and the debt remains.

    The broker itself rejects timestamps more than an hour ahead.
    """
    prepare_topics(deployment)
    topics = deployment.topics
    write_record(deployment, QuotaRecord(QuotaEntity("alice"), 0.001, controller_mutation_burst=10.0))
    query = start_enforce(DeploymentSession.on(spark, deployment))
    try:
        produce(deployment, topics.requests, request_json(11))
        consume(deployment, topics.decisions, 1)
        stamp(deployment, topics.requests, "CreateTime")
        producer = Producer({**QUIET, "bootstrap.servers": deployment.kafka.bootstrap_servers})
        now = int(time.time() * 1000)
        producer.produce(topics.requests, request_json(1), b"alice", partition=0, timestamp=now + HALF_AN_HOUR_MS)
        assert producer.flush(DEADLINE_SECONDS) == 0
        (_, letter), *_ = consume(deployment, topics.dead_letters, 1)
        stamp(deployment, topics.requests, "LogAppendTime")
        produce(deployment, topics.requests, request_json(1))
        _, rejected = consume(deployment, topics.decisions, 2)[1]
    finally:
        query.stop()
    assert letter["error"].startswith("timestamp: set by the producer")
    assert letter["timestamp"] is None
    assert (rejected["outcome"], round(rejected["tokens"])) == ("REJECTED", -1)
    (listed,) = read_dead_letters(deployment)
    assert now <= listed.at < now + HALF_AN_HOUR_MS
    finish(start_audit(DeploymentSession.on(spark, deployment), once=True))
    (row,) = read_table(deployment, "dead_letters")
    assert (row["error"], int(row["timestamp"].timestamp() * 1000)) == (letter["error"], listed.at)


def test_a_quota_stamped_by_its_producer_does_not_take_effect(deployment, caplog):
    prepare_topics(deployment)
    quotas = deployment.topics.quotas
    write_record(deployment, QuotaRecord(QuotaEntity("alice"), 5.0))
    stamp(deployment, quotas, "CreateTime")
    produce(deployment, quotas, b'{"entity": {"user": "alice"}, "controller_mutation_rate": 1e9}', key=b"x")
    (change,) = read_log(deployment).timeline.configured(at=2**62)
    assert change.quota.rate == 5.0
    assert "which is not a valid quota record" in caplog.text


def test_a_users_topic_stamped_by_producers_is_rejected_and_can_be_corrected(by_topic, command):
    """The start fails; `user-topics prepare` corrects the topic, and prints the ACLs that its user needs."""
    topic = request_topic("alice", by_topic.topics)
    create(by_topic, topic, **{"message.timestamp.type": "CreateTime"})
    with pytest.raises(ClusterError, match=f"topic {topic} is stamped by producers"):
        prepare_topics(by_topic)
    printed = command("user-topics", "prepare", *BY_TOPIC, "--user", "alice", "--user", "bob.eu")
    assert acl_line(by_topic.kafka, "alice", topic) in printed
    both = {topic, f"{by_topic.topics.requests}.bob.eu"}
    assert {timestamp_type(by_topic, each) for each in both} == {"LogAppendTime"}
    assert both < prepare_topics(by_topic).keys()
    with pytest.raises(ClusterError, match=r"bob_eu.* collides with"):
        UserTopics(by_topic).prepare(["bob_eu"])
    assert "users do not have their own topics" in command("user-topics", "prepare", "--user", "alice", exit_code=2)


def test_a_recreated_topic_of_a_user_stops_the_job(spark, by_topic):
    """With the offsets of the old topic its requests would be skipped."""
    monitor(spark, by_topic).poll()
    UserTopics(by_topic).prepare(["alice"])
    monitor(spark, by_topic).poll()
    delete(by_topic, request_topic("alice", by_topic.topics))
    monitor(spark, by_topic).poll()
    UserTopics(by_topic).prepare(["alice"])

    def rejection():
        """A broker may need some time to know the new topic."""
        try:
            monitor(spark, by_topic).poll()
        except MutationQuotaError as error:
            return str(error)
        return None

    assert "alice is not the topic that" in until(rejection)


@pytest.mark.parametrize("batches", [1, 2])
def test_a_user_is_retired_even_if_a_kill_left_a_batch_with_their_requests_unfinished(spark, by_topic, batches):
    """The batch, even the first one, is run again without them: bob's debt and his decision stay the same."""
    topics = by_topic.topics
    write_record(by_topic, QuotaRecord(QuotaEntity(None), 0.001, controller_mutation_burst=10.0))
    UserTopics(by_topic).prepare(["alice", "bob"])
    retiring = with_sections(by_topic, topics={"retired_users": ["alice"]})

    def enforce(settings):
        ids = {name: topic.topic_id for name, topic in prepare_topics(settings).items()}
        claim_storage(open_files(spark, settings), settings, ids)
        finish(start_enforce(DeploymentSession.on(spark, settings), once=True))

    request_ids = [f"batch-{batch}" for batch in range(batches)]
    for request_id in request_ids:
        for user, partitions in (("alice", 1), ("bob", 11)):
            produce(by_topic, request_topic(user, topics), request_json(partitions, user=user, request_id=request_id))
        enforce(by_topic)
    commits = Path(by_topic.storage.url, checkpoint_folder(ENFORCE, STATE_VERSION), "commits")
    Path(commits, str(batches - 1)).unlink()  # as a kill leaves it
    delete(by_topic, request_topic("alice", topics))
    with pytest.raises(TopicGone, match=r"start once with its user in topics\.retired_users"):
        enforce(by_topic)
    enforce(retiring)
    produce(by_topic, request_topic("bob", topics), request_json(1, user="bob", request_id="later"))
    enforce(by_topic)
    decided = [decision for _, decision in consume_all(by_topic, topics.decisions) if decision["user"] == "bob"]
    assert [decision["request_id"] for decision in decided] == [*request_ids, request_ids[-1], "later"]
    assert decided[batches - 1] == decided[batches]
    assert {round(decision["tokens"]) for decision in decided} == {-1}


def test_a_client_whose_user_has_no_topic_cannot_be_made(by_topic):
    names = ("requests", "decisions", "dead_letters", "identity")
    own = {f"mutation.quota.topics.{name}": getattr(by_topic.topics, name) for name in names}
    config = {**QUIET, "bootstrap.servers": by_topic.kafka.bootstrap_servers, "mutation.quota.client.user": "nobody"}
    advice = r"requests.nobody does not exist, .*mutation-quota user-topics prepare --user nobody"
    with pytest.raises(ClusterError, match=advice):
        QuotaAdminClient(config | own)
