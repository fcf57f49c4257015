"""Dead letters: listed, shown, and sent again."""

import json

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from jobs.enforce.query import start_enforce
from jobs.storage.run import Run
from quota.kafka.requests import AnswerReader
from quota.kafka.topics.preparation import prepare_topics
from quota.records import codec
from quota.records.dead_letter import DeadLetter
from quota.records.record import Source
from tests.support.clients import QUIET, admin_of
from tests.support.factories import request_json
from tests.support.topics import end_offsets, produce

MISTAKES = [
    request_json(1, request_id="typo", operation="TRUNCATE"),
    b"\xff no text",
    request_json(-1, request_id="minus"),
    request_json(1, request_id="fine"),
]


@pytest.fixture
def enforce(spark, deployment):
    """Let the job process the existing records."""
    prepare_topics(deployment)

    def _enforce():
        query = start_enforce(Run.on(spark, deployment), once=True)
        assert query.awaitTermination(60)

    return _enforce


def send(deployment, *values):
    producer = Producer({**QUIET, "bootstrap.servers": deployment.kafka.bootstrap_servers})
    for value in values:
        producer.produce(deployment.topics.requests, value, b"alice", partition=0)
    assert producer.flush(10) == 0


def request_ids(deployment):
    """The requests that were decided."""
    reader = AnswerReader(deployment, from_beginning=True)
    answers = [received.answer for _ in range(3) for received in reader.read(1.0)]
    reader.close()
    return sorted(answer.request_id for answer in answers if hasattr(answer, "request_id"))


def test_dead_letters_are_listed_shown_corrected_and_sent_again(deployment, enforce, command, tmp_path):
    send(deployment, *MISTAKES)
    enforce()
    ids = [f"{deployment.topics.requests}-0-{offset}" for offset in range(3)]
    listed = command("dead-letters", "list", "--output", "json")["dead_letters"]
    assert [(each["id"], each["errors"][0][:30]) for each in listed] == [
        (ids[0], "operation: invalid enum value "),
        (ids[1], "value: not UTF-8 (byte 0xff at"),
        (ids[2], "topics[0].partitions: expected"),
    ]
    assert ids[2] in command("dead-letters", "list", "--error", "partitions", "--limit", "1")
    assert ids[0] not in command("dead-letters", "list", "--error", "partitions")

    shown = command("dead-letters", "describe", ids[0])
    assert shown.startswith(MISTAKES[0].decode())
    assert "operation: invalid enum value 'TRUNCATE'" in shown

    assert "is still invalid" in command("dead-letters", "resend", ids[0], exit_code=2)
    corrected = tmp_path / "corrected.json"
    corrected.write_text(json.dumps(json.loads(MISTAKES[0]) | {"operation": "CREATE_TOPICS"}))
    assert "Would resend" in command("dead-letters", "resend", ids[0], "--value", str(corrected), "--dry-run")
    assert command("dead-letters", "resend", ids[0], "--value", str(corrected)) == f"Resent {ids[0]}.\n"
    enforce()
    assert request_ids(deployment) == ["fine", "typo"]


def test_a_request_that_the_broker_rejects_is_not_reported_as_resent(deployment, command):
    prepare_topics(deployment)
    topic = deployment.topics.requests
    letter = DeadLetter(
        error="the callback failed", value=request_json(1).decode(), timestamp=5, source=Source(topic, 0, 7)
    )
    produce(deployment, deployment.topics.dead_letters, codec.encode(letter))
    admin = admin_of(deployment)
    limit = ConfigResource(
        ResourceType.TOPIC,
        topic,
        incremental_configs=[ConfigEntry("max.message.bytes", "64", incremental_operation=AlterConfigOpType.SET)],
    )
    for altered in admin.incremental_alter_configs([limit]).values():
        altered.result(10)
    printed = command("dead-letters", "resend", f"{topic}-0-7", exit_code=1)
    servers = deployment.kafka.bootstrap_servers
    assert printed == (
        f"mutation-quota: 0 of 1 request sent: cannot send requests to Kafka at {servers}: "
        "Broker: Message size too large\n"
    )
    assert sum(end_offsets(deployment, topic).values()) == 0
