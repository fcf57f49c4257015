"""A storm: applications that ask for far more than their quotas, and an applier that is killed repeatedly."""

import itertools
import random
import time
from collections import Counter

import pytest
from confluent_kafka.admin import AdminClient

from jobs.enforce.query import start_enforce
from jobs.storage.files import DeploymentSession
from quota.kafka.librdkafka import client_config
from quota.kafka.quotas.writer import write_record
from quota.kafka.reading import read_topic
from quota.kafka.requests_and_answers import RequestWriter
from quota.kafka.timing import Deadline
from quota.kafka.topics.preparation import prepare_topics
from quota.records.decision import read_decision
from quota.records.entity import QuotaEntity
from quota.records.quota_log import QuotaRecord
from quota.records.request import STRICT_SINCE, MutationRequest, Operation, TopicMutation
from tests.support.factories import read_result
from tests.support.programs import running_applier
from tests.support.waiting import until

ANSWER_SECONDS = 60.0
PAUSE_SECONDS = 0.02
"""The mean time between two requests."""

PREFIX = "storm-"
"""Prefix of all topic names."""


@pytest.fixture
def enforcing(spark, deployment):
    """The job at work on a deployment in which each user has a low quota."""
    prepare_topics(deployment)
    write_record(deployment, QuotaRecord(QuotaEntity(None), 3.0))
    query = start_enforce(DeploymentSession.on(spark, deployment))
    yield deployment
    query.stop()


@pytest.mark.parametrize(
    ("seconds", "applications", "kills"), [(5, 4, 2), pytest.param(60, 10, 30, marks=pytest.mark.nightly)]
)
def test_a_storm_with_an_applier_that_is_killed(enforcing, seconds, applications, kills):
    """Nothing is created without admission or twice, nothing is missing, and each request gets its result."""
    with running_applier(enforcing, kills):
        sent = rage(enforcing, seconds, applications)
        decisions, results = answers(enforcing, sent)
    outcomes = outcomes_of(results)
    assert {decision.request_id for decision in decisions.values()} == sent
    assert list(wrong_results(decisions, results)) == []
    until(lambda: list(wrong_topics(enforcing, decisions, outcomes)) == [], seconds=10)
    done = {decision.operation for decision, topic in admitted_by(decisions) if is_done(outcomes, decision, topic)}
    assert done == set(Operation)
    assert any(topic.error_code for decision in decisions.values() for topic in decision.topics)


def rage(settings, seconds, applications):
    """Write requests of applications, two of which share a user, without a pause for any throttle; return the ids."""
    rng, deadline, sent = random.Random(599), time.monotonic() + seconds, set()
    making = [mutations(number, rng) for number in range(applications)]
    writer = RequestWriter(settings)
    while time.monotonic() < deadline:
        number = rng.randrange(applications)
        operation, topics = next(making[number])
        request = MutationRequest(
            f"{number}-{len(sent)}",
            operation,
            STRICT_SINCE[operation],
            topics,
            user=f"tenant-{number // 2}",
            client_id=f"storm-{number}",
        )
        sent.add(request.request_id)
        writer.send(request)
        time.sleep(rng.uniform(0, 2 * PAUSE_SECONDS))
    writer.flush(30)
    return sent


def mutations(application, rng):
    """Yield creations, growths and deletions of an application's own topics, as if each had been admitted."""
    made = {}
    for count in itertools.count():
        operation = rng.choices(list(Operation), [50, 20, 30])[0] if made else Operation.CREATE_TOPICS
        if operation is Operation.CREATE_TOPICS:
            topics = [
                TopicMutation(f"{PREFIX}{application}-{count}-{nth}", rng.randint(1, 3))
                for nth in range(rng.randint(1, 3))
            ]
            made |= {topic.name: topic.partitions for topic in topics}
        elif operation is Operation.CREATE_PARTITIONS:
            name, after = next(reversed(made)), rng.randint(4, 6)
            topics = [TopicMutation(name, max(0, after - made[name]), count=after)]
            made[name] = max(after, made[name])
        else:
            name, partitions = made.popitem()
            topics = [TopicMutation(name, partitions)]
        yield operation, topics


def answers(settings, sent):
    """Return all decisions by their ids, and all results, once each request and each admitted topic has one."""
    deadline = Deadline(ANSWER_SECONDS)
    while True:
        read = [read_decision(message.value()) for message in records(settings, settings.topics.decisions)]
        decisions = {decision.decision_id: decision for decision in read}
        results = [read_result(message.value()) for message in records(settings, settings.topics.results)]
        admitted = {(decision.decision_id, topic.name) for decision, topic in admitted_by(decisions)}
        is_decided = sent <= {decision.request_id for decision in read}
        if (is_decided and admitted <= outcomes_of(results).keys()) or deadline.has_passed:
            return decisions, results


def records(settings, topic):
    return read_topic(settings.kafka.connection, topic, ANSWER_SECONDS)


def wrong_results(decisions, results):
    """Yield admitted topics without exactly one result, and topics that were created twice."""
    outcomes = outcomes_of(results)
    for decision_id, times in Counter(result.decision_id for result in results).items():
        if times > 1:
            yield f"{decision_id} was carried out {times} times"
    for decision, topic in admitted_by(decisions):
        if (decision.decision_id, topic.name) not in outcomes:
            yield f"{topic.name} was admitted by {decision.decision_id} and never carried out"
    for (_, name), topic in outcomes.items():
        if topic.error == "TOPIC_ALREADY_EXISTS":
            yield f"{name} was created twice"


def wrong_topics(settings, decisions, outcomes):
    """Yield topics of the cluster that are not as in the results, or that were not admitted."""
    topics = AdminClient(client_config(settings.target_connection)).list_topics(timeout=10).topics
    existing = {name: len(topic.partitions) for name, topic in topics.items() if name.startswith(PREFIX)}
    expected, admitted = {}, set()
    for decision, topic in admitted_by(decisions):
        admitted.add(topic.name)
        if is_done(outcomes, decision, topic):
            after = {Operation.CREATE_TOPICS: topic.partitions, Operation.CREATE_PARTITIONS: topic.count}
            expected[topic.name] = after.get(decision.operation)
    for name in existing.keys() - admitted:
        yield f"{name} was created without being admitted"
    for name in expected.keys() | existing.keys():
        if expected.get(name) != existing.get(name):
            yield f"{name} has {existing.get(name)} partitions, not {expected.get(name)}"


def is_done(outcomes, decision, topic):
    result = outcomes.get((decision.decision_id, topic.name))
    return result is not None and result.error_code == 0


def admitted_by(decisions):
    """Yield admitted topics with their decisions, in the order in which they are applied."""
    in_order = sorted(decisions.values(), key=lambda decision: (decision.source.partition, decision.source.offset))
    for decision in in_order:
        for topic in decision.topics:
            if not topic.error_code:
                yield decision, topic


def outcomes_of(results):
    return {(result.decision_id, topic.name): topic for result in results for topic in result.topics}
