"""The commands that show what there is, and the records that the dashboard reads, on a real broker."""

import json

import pytest

from jobs.audit.query import start_audit
from jobs.background import background
from jobs.dashboard import feed as feeds
from jobs.dashboard.feed import Feed
from jobs.dashboard.state import View
from jobs.enforce.query import start_enforce
from jobs.storage.files import DeploymentSession
from quota.kafka.timing import now_ms
from quota.kafka.topics.preparation import prepare_topics
from quota.records import codec
from tests.support.deployment import as_options
from tests.support.factories import decided, request_json
from tests.support.programs import run, running_applier
from tests.support.topics import admin_of, produce
from tests.support.waiting import finish, until

UNREACHABLE = "127.0.0.1:9"


@pytest.fixture
def status(deployment):
    """Return a function that runs `status`, and returns its exit code and its document."""

    def _status(*args):
        done = run(
            *as_options(deployment, f"storage.root={deployment.storage.root}"), "status", "--output", "json", *args
        )
        assert done.returncode in {0, 1}, done.stderr
        return done.returncode, json.loads(done.stdout)

    return _status


def rows(document, part):
    return {row["name"]: row for row in document[part]}


def test_a_deployment_that_never_started_has_no_topics_and_no_checkpoint(deployment, status):
    exit_code, document = status()

    topics = rows(document, "topics")
    assert exit_code == 1
    assert topics[deployment.topics.requests]["exists"] is False
    assert document["problems"][0].startswith(f"topic {deployment.topics.requests} is missing")
    assert document["problems"][-1].startswith("enforce has not run on")
    assert len(document["kafka"]["brokers"]) == 1


def test_there_are_no_problems_once_the_jobs_have_read_everything(spark, deployment, status):
    prepare_topics(deployment)
    names = deployment.topics
    produce(deployment, names.requests, request_json(1), request_json(2))
    finish(start_enforce(DeploymentSession.on(spark, deployment), once=True))
    finish(start_audit(DeploymentSession.on(spark, deployment), once=True))

    exit_code, document = status()

    assert (exit_code, document["problems"]) == (0, [])
    topic = rows(document, "topics")[names.requests]
    assert (topic["partition_count"], topic["timestamp_type"], topic["differences"]) == (2, "LogAppendTime", [])
    queries, tables = rows(document, "queries"), rows(document, "tables")
    read = {(place["partition"], place["position"], place["end"]) for place in queries["enforce"]["partitions"]}
    assert read == {(0, 2, 2), (1, 0, 0)}
    assert (queries["enforce"]["lag"], queries["audit"]["lag"]) == (0, 0)
    assert tables["decisions"]["rows"] == 2

    produce(deployment, names.requests, request_json(3), partition=1)
    partitions = rows(status()[1], "queries")["enforce"]["partitions"]
    assert [(partition["partition"], partition["lag"]) for partition in partitions] == [(0, 0), (1, 1)]


def test_a_running_applier_is_detected_by_its_position(deployment, status):
    prepare_topics(deployment)
    with running_applier(deployment):
        until(lambda: "applier" in rows(status()[1], "queries"))
        applier = rows(status()[1], "queries")["applier"]

    assert (applier["running"], applier["running_by"], applier["lag"]) == (True, "the time of its position", 0)


def test_without_kafka_the_rest_is_reported(status):
    exit_code, document = status("--bootstrap-server", UNREACHABLE)

    assert exit_code == 1
    assert document["problems"][0].startswith(f"cannot reach Kafka at {UNREACHABLE}")
    assert document["storage"]["error"] is None
    assert rows(document, "queries")["enforce"]["lag"] is None


def test_a_recreated_decisions_topic_is_read_from_its_beginning(deployment, monkeypatch):
    """Its records have the offsets of those that were read before it was deleted."""
    monkeypatch.setattr(feeds, "_CHECK_SECONDS", 0.2)
    prepare_topics(deployment)
    topic = deployment.topics.decisions
    feed = Feed(deployment)

    def decide(user):
        made = decided(1, at=now_ms(), user=user)
        produce(deployment, topic, codec.encode(made))

    def shown():
        news = feed.state.news(View(), now_ms())
        return [summary.user for summary in news["decisions"]]

    with background(feed.follow, "feed"):
        until(lambda: feed.contact.state == "live")
        decide("before")
        until(lambda: shown() == ["before"])
        admin = admin_of(deployment)
        admin.delete_topics([topic])[topic].result()
        until(lambda: topic not in admin.list_topics(timeout=10).topics)
        prepare_topics(deployment)
        decide("after")
        until(lambda: shown() == ["after"])
