"""Dead letters: listed, shown, and sent again."""

import json

import pytest
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from jobs.enforce.query import start_enforce
from jobs.storage.files import DeploymentSession
from quota.kafka.topics.preparation import prepare_topics
from quota.records import codec
from quota.records.dead_letter import DeadLetter
from quota.records.record import Source
from tests.support.factories import request_json
from tests.support.topics import admin_of, decisions_of, end_offsets, produce
from tests.support.waiting import finish

MISTAKES = [
    request_json(1, request_id="typo", operation="TRUNCATE"),
    b"\xff no text",
    request_json(-1, request_id="minus"),
    request_json(1, request_id="fine"),
]


@pytest.fixture
def enforce(spark, deployment):
    """Return a function that lets the job process the existing records."""
    prepare_topics(deployment)
    return lambda: finish(start_enforce(DeploymentSession.on(spark, deployment), once=True))


def test_dead_letters_are_listed_shown_corrected_and_sent_again(deployment, enforce, command, tmp_path):
    produce(deployment, deployment.topics.requests, *MISTAKES)
    enforce()
    ids = [f"{deployment.topics.requests}-0-{offset}" for offset in range(3)]
    listed = command("dead-letters", "list", "--output", "json")["dead_letters"]
    assert [(letter["id"], letter["error"][:30]) for letter in listed] == [
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
    assert sorted(decision["request_id"] for decision in decisions_of(deployment).values()) == ["fine", "typo"]


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
