"""A transaction that somebody leaves open hides the records after it: who is held up, and who is told of it.

And records that are deleted from a topic that should only be compacted.
"""

import asyncio
import threading
import time

import msgspec
import pytest
from confluent_kafka import TopicPartition

from jobs.status.facts import read_cluster_facts
from quota.errors import ClusterError
from quota.kafka.awaited_decisions import AwaitedDecisions
from quota.kafka.producers import PositionWriter
from quota.kafka.quotas.log import read_log
from quota.kafka.quotas.writer import QuotaWriter, write_record
from quota.kafka.requests_and_answers import AnswerReader, RequestWriter
from quota.kafka.topics.preparation import prepare_topics
from quota.kafka.topics.specs import TopicSpec
from quota.kafka.topics.topic_admin import TopicAdmin
from quota.records.decision_request import DecisionRequest
from quota.records.entity import QuotaEntity
from quota.records.quota_log import QuotaRecord
from quota.records.request import MutationRequest, Operation, TopicMutation
from tests.support.topics import admin_of, open_transaction
from tests.support.waiting import until

ANN, BOB = QuotaEntity("ann"), QuotaEntity("bob")


@pytest.fixture
def leave_open(deployment):
    """Return a function that writes a record in a transaction, which it leaves open, and returns what aborts it."""
    prepare_topics(deployment)
    left = []

    def leave(topic, value=b"{}"):
        left.append(open_transaction(deployment, topic, value))
        return lambda: left.pop().abort_transaction(10)

    yield leave
    for producer in left:
        producer.abort_transaction(10)


def rates(log):
    return {change.entity: change.quota.rate for change in log.timeline.configured(log.now)}


def altered(settings, entity, rate):
    QuotaWriter(settings).alter_quotas({entity: lambda _: QuotaRecord(entity, rate)})


def test_who_waits_for_a_decision_is_told_of_the_transaction_that_hides_the_request(deployment, leave_open):
    """Neither the job nor its absence is the cause; status reads the same facts."""
    topic = deployment.topics.requests
    leave_open(topic)
    request = MutationRequest("", Operation.CREATE_TOPICS, 7, [TopicMutation("t", 1)], user="ann", apply=False)

    async def ask():
        decisions = AwaitedDecisions(
            RequestWriter(deployment), AnswerReader(deployment), deployment.topics, "me-", lambda *_: None
        )
        decisions.start()
        reply = await decisions.request(DecisionRequest(request, 6500))
        decisions.close()
        return reply

    assert asyncio.run(ask()).cause.startswith(f"a transaction has been open on {topic}-0 since offset 0; unless it")
    facts = read_cluster_facts(deployment)
    assert (facts.stable[topic, 0], facts.end[topic, 0] > 0) == (0, True)


def test_the_transaction_of_another_group_hides_no_position(deployment, leave_open):
    """An applier or observer that took an earlier position for its latest would do again what is done."""
    writer = PositionWriter(deployment, "applier", deployment.applier.group, 1000, 60)
    abort = leave_open(deployment.topics.positions)
    writer.begin({"offset": 9})
    writer.commit()
    started_at = time.monotonic()
    ends = threading.Timer(2, abort)
    ends.start()
    restarted = PositionWriter(deployment, "applier", deployment.applier.group, 1000, 60)
    assert restarted.position(msgspec.json.Decoder()) == {"offset": 9}
    assert time.monotonic() - started_at >= 2
    ends.join()


def test_an_open_transaction_on_the_quota_log_delays_later_changes_and_nothing_else(deployment, leave_open):
    altered(deployment, ANN, 5.0)
    abort = leave_open(deployment.topics.quotas, b'{"entity": {"user": "eve"}, "controller_mutation_rate": 1}')
    with pytest.raises(ClusterError, match="is written, and takes effect when a transaction ends that another program"):
        altered(deployment, BOB, 7.0)
    log = read_log(deployment)
    assert rates(log) == {ANN: 5.0}
    abort()
    until(lambda: log.read_to_end() or BOB in rates(log), 30)
    assert rates(log) == {ANN: 5.0, BOB: 7.0}


def test_a_quota_log_whose_records_are_deleted_can_be_read_and_altered(deployment, caplog):
    """All but the last one, then that too; a program that runs keeps what it has read."""
    prepare_topics(deployment)
    topic = deployment.topics.quotas
    for entity, rate in ((ANN, 5.0), (BOB, 7.0)):
        write_record(deployment, QuotaRecord(entity, rate))
    running = read_log(deployment)
    assert "were deleted" not in caplog.text
    TopicAdmin(deployment.kafka.connection, 10).configure([TopicSpec(topic, 1, {"cleanup.policy": "compact,delete"})])
    admin = admin_of(deployment)
    for first, left in ((1, {BOB: 7.0}), (2, {})):
        for future in admin.delete_records([TopicPartition(topic, 0, first)]).values():
            future.result()
        assert rates(read_log(deployment)) == left
        assert f"before offset {first} were deleted" in caplog.text
    running.read_to_end()
    assert rates(running) == {ANN: 5.0, BOB: 7.0}
    altered(deployment, ANN, 6.0)
    assert rates(read_log(deployment)) == {ANN: 6.0}
