"""Observed requests through all jobs: decided in shadow, and audited with the cluster's own answers."""

import threading
from datetime import UTC, datetime, timedelta

from jobs.audit.query import start_audit
from jobs.enforce.query import start_enforce
from jobs.observe.following import Follower, FollowStats
from jobs.storage.files import DeploymentSession
from quota.kafka.quotas.writer import write_record
from quota.kafka.topics.preparation import prepare_topics
from quota.records.entity import QuotaEntity
from quota.records.quota_log import QuotaRecord
from tests.support.request_log import created
from tests.support.tables import read_table
from tests.support.waiting import finish, until


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
