"""Request logs that are followed onto the request topic of a real broker, decided in shadow and audited."""

import json
import logging
import signal
import subprocess
import threading
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import pytest

from jobs.audit.query import start_audit
from jobs.enforce.query import start_enforce
from jobs.observe.following import Follower, FollowStats
from jobs.services.loops import run_follow
from jobs.storage.files import DeploymentSession
from quota.errors import BadInput
from quota.kafka.producers import TakenOver
from quota.kafka.quotas.writer import write_record
from quota.kafka.reading import read_topic
from quota.kafka.topics.preparation import prepare_topics
from quota.records.entity import QuotaEntity
from quota.records.quota_log import QuotaRecord
from tests.support.deployment import as_options, prepared_deployment, with_sections
from tests.support.programs import command_line
from tests.support.request_log import created, deleted, fetched, grown
from tests.support.tables import read_table
from tests.support.waiting import finish, until


def now():
    return datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S,%f")[:-3]


def append(log, *lines):
    with log.open("ab") as file:
        file.write(b"".join(lines))


def requests(settings):
    """All requests that a committed transaction has written, by topic name and partitions."""
    written = [
        json.loads(message.value()) for message in read_topic(settings.kafka.connection, settings.topics.requests, 10)
    ]
    return sorted((topic["name"], topic["partitions"]) for request in written for topic in request["topics"])


@pytest.fixture
def observed(deployment):
    """A deployment whose observer has a separate name."""
    prepare_topics(deployment)
    return with_sections(deployment, observe={"group": f"observe-{deployment.topics.requests}"})


@pytest.fixture
def log(tmp_path):
    file = tmp_path / "kafka-request.log"
    append(file, created(now(), ("before", 3)))
    return file


def follow(settings, *logs, from_beginning=False):
    """Follow logs up to their current ends."""
    follower = Follower(settings, logs, FollowStats(), from_beginning=from_beginning)
    follower.run(threading.Event(), once=True)


def test_each_mutation_is_written_once_over_restarts_and_rotations(observed, log):
    follow(observed, log)
    assert requests(observed) == []  # it begins at the end
    append(log, fetched(now()), created(now(), ("a", 3), ("b", 4)), fetched(now()))
    follow(observed, log)
    append(log, created(now(), ("c", 5)), grown(now(), "c", 11))
    log.rename(log.with_name("kafka-request.log.1"))
    append(log, deleted(now(), "c"))
    follow(observed, log)
    follow(observed, log)
    assert requests(observed) == [("a", 3), ("b", 4), ("c", 5), ("c", 6), ("c", 11)]


def test_topics_of_the_cluster_are_known_when_it_starts(observed, log):
    follow(observed, log)
    append(log, deleted(now(), observed.topics.decisions))
    follow(observed, log)
    assert requests(observed) == [(observed.topics.decisions, observed.topics.partitions)]


def test_uncommitted_lines_are_read_again_and_nothing_is_written_twice(observed, log, monkeypatch):
    follow(observed, log)
    append(log, created(now(), ("a", 3)))
    follower = Follower(observed, [log], FollowStats(), from_beginning=False)
    monkeypatch.setattr(follower._writer, "commit", lambda: (_ for _ in ()).throw(SystemExit))  # noqa: SLF001
    with pytest.raises(SystemExit):  # as by a kill between the records and the end of the transaction
        follower.run(threading.Event(), once=True)
    follow(observed, log)
    assert requests(observed) == [("a", 3)]


def test_the_later_of_two_observers_in_a_group_works(observed, log):
    earlier, later = (Follower(observed, [log], FollowStats(), from_beginning=False) for _ in range(2))
    append(log, created(now(), ("a", 3)))
    with pytest.raises(TakenOver, match=r"another observer of the group observe-.* has taken over"):
        earlier.run(threading.Event(), once=True)
    later.run(threading.Event(), once=True)
    assert requests(observed) == [("a", 3)]


def test_invalid_lines_are_reported_and_the_rest_is_read(observed, log, caplog):
    follow(observed, log)
    append(log, created(now(), ("a", 3))[:300] + b"\n", created(now(), ("b", 4)))
    with caplog.at_level(logging.WARNING):
        follow(observed, log)
    assert requests(observed) == [("b", 4)]
    assert "kafka-request.log: a truncated line, or not JSON" in caplog.text


def test_the_command_ends_without_its_broker_and_the_next_one_continues(base_settings, another_broker, log, tmp_path):
    """A line that it has read when the broker is away is written once, when it is back; without it none starts."""
    settings = prepared_deployment(base_settings, another_broker, "followed", tmp_path / "root")
    settings = with_sections(settings, kafka={"timeout_seconds": 2.0})
    impatient = {"quota.kafka.producers._MIN_TIMEOUT_SECONDS": 2.0}
    command = command_line("observe", "follow", str(log), *as_options(settings), constants=impatient)

    @contextmanager
    def following():
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        try:
            yield process
        finally:
            process.kill()
            process.communicate()

    with following() as process:
        assert any("running: observe" in line for line in process.stderr)
        append(log, created(now(), ("a", 3)))
        until(lambda: requests(settings) == [("a", 3)])
        another_broker.stop()
        append(log, created(now(), ("b", 4)))
        _, output = process.communicate(timeout=30)
        assert process.returncode == 1
        assert output.splitlines()[-1].startswith("mutation-quota: cannot write as observer ")
    with following() as process:
        _, output = process.communicate(timeout=30)
        assert process.returncode == 1
        assert len(output.splitlines()) == 1
        assert "Connection refused" in output
    another_broker.start()
    with following() as process:
        until(lambda: requests(settings) == [("a", 3), ("b", 4)])
        append(log, created(now(), ("c", 5)))
        until(lambda: requests(settings) == [("a", 3), ("b", 4), ("c", 5)])
        process.send_signal(signal.SIGINT)
        _, output = process.communicate(timeout=30)
    assert process.returncode == 0
    assert output.splitlines()[-1].startswith("observed: 2 requests for 9 mutations")


def test_users_with_their_own_topics_are_rejected_with_a_reason(observed, log):
    by_topic = with_sections(observed, topics={"identity": "topic"})
    with pytest.raises(BadInput, match="use a separate deployment for observed requests"):
        run_follow(by_topic, [log], from_beginning=False, once=True)


def test_observed_requests_are_decided_in_shadow_and_audited(spark, deployment, tmp_path):
    """The first request leaves a burst of 55 of alice's quota of 5/s: 60 are 5 too many, for 1,000 ms."""
    prepare_topics(deployment)
    log = tmp_path / "kafka-request.log"
    log.touch()
    write_record(deployment, QuotaRecord(QuotaEntity("alice"), 5.0))
    began = datetime.now(UTC) + timedelta(milliseconds=500)

    def at(ms):
        return (began + timedelta(milliseconds=ms)).strftime("%Y-%m-%d %H:%M:%S,%f")[:-3]

    log.write_bytes(
        created(at(0), ("a", 60), correlation_id=1, totalTimeMs=0)
        + created(at(0), ("b", 1), errors=[89], throttle_ms=1000, correlation_id=2, totalTimeMs=0)
        + created(at(400), ("b", 1), errors=[89], throttle_ms=610, correlation_id=3, totalTimeMs=20)
        + created(at(500), ("b", 1), correlation_id=4, totalTimeMs=0)
    )
    until(lambda: datetime.now(UTC) > began + timedelta(seconds=1))  # a request is not from the future
    Follower(deployment, [log], FollowStats(), from_beginning=True).run(threading.Event(), once=True)
    finish(start_enforce(DeploymentSession.on(spark, deployment), once=True))
    finish(start_audit(DeploymentSession.on(spark, deployment), once=True))

    rows = sorted(read_table(deployment, "decisions"), key=lambda row: row["timestamp"])
    assert [row["outcome"] for row in rows] == ["ADMITTED"] * 4
    assert [row["shadow"]["error_codes"] for row in rows] == [[0], [89], [89], [89]]
    assert [row["observed"]["error_codes"] for row in rows] == [[0], [89], [89], [0]]
    assert [row["apply"] for row in rows] == [False] * 4
    times = [round((row["timestamp"] - rows[0]["timestamp"]).total_seconds() * 1000) for row in rows]
    assert times == [0, 0, 380, 500]
