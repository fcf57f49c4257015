"""Clients against the running job: from a call to a topic that exists, or to an error that says why not."""

import asyncio
import time

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import NewPartitions, NewTopic

from jobs.enforce.query import start_enforce
from jobs.sandbox.broker import free_port
from jobs.storage.files import DeploymentSession
from quota.errors import BadInput, ClusterError
from quota.kafka.admin.calls import ThrottlingQuotaExceededError
from quota.kafka.admin.client import QuotaAdminClient
from quota.kafka.quotas.writer import write_record
from quota.records.entity import QuotaEntity
from quota.records.quota_log import QuotaRecord
from tests.support.deployment import PARTS, prepared_deployment
from tests.support.topics import QUIET, admin_of
from tests.support.waiting import until

BURST = 110
"""Of a quota of ten mutations a second."""


class Job:
    """The enforcing query on a deployment of these tests, which may stop and start it."""

    def __init__(self, spark, settings):
        self.settings = settings
        self._spark = spark
        self._query = None

    def start(self):
        self._query = start_enforce(DeploymentSession.on(self._spark, self.settings))

    def stop(self):
        self._query.stop()

    def config(self, user):
        """Return librdkafka's own settings, as an application passes them to its client."""
        own = {f"mutation.quota.topics.{part}": getattr(self.settings.topics, part) for part in PARTS}
        servers = self.settings.kafka.bootstrap_servers
        return {
            **QUIET,
            "bootstrap.servers": servers,
            "client.id": "app",
            "mutation.quota.client.user": user,
            **own,
        }

    def limit(self, user, rate=10.0):
        """Give a user a quota."""
        write_record(self.settings, QuotaRecord(QuotaEntity(user), rate))

    def partitions(self, name):
        """Return the number of partitions of a topic; None if there is none."""
        admin = admin_of(self.settings)
        topic = admin.list_topics(timeout=10).topics.get(name)
        return None if topic is None else len(topic.partitions)


@pytest.fixture(scope="module")
def job(spark, base_settings, broker, tmp_path_factory):
    settings = prepared_deployment(base_settings, broker, "clients", tmp_path_factory.mktemp("clients"))
    job = Job(spark, settings)
    job.start()
    yield job
    job.stop()


def error_of(future):
    """The Kafka error that a future ends with, as (name, message)."""
    error = future.exception(timeout=60)
    assert isinstance(error, KafkaException)
    return error.args[0].name(), error.args[0].str()


def test_topics_are_created_grown_and_deleted(job):
    with QuotaAdminClient(job.config("maker")) as admin:
        topics = [NewTopic("made", 2, config={"retention.ms": "1234"}), NewTopic("other")]
        for future in admin.create_topics(topics).values():
            assert future.result(60) is None
        assert (job.partitions("made"), job.partitions("other")) == (2, 1)
        assert admin.create_partitions([NewPartitions("made", 5)])["made"].result(60) is None
        assert job.partitions("made") == 5
        futures = admin.delete_topics(["made", "other", "never-was", "twice", "twice"])
        assert futures["made"].result(60) is None
        assert futures["other"].result(60) is None
        assert error_of(futures["never-was"])[0] == "UNKNOWN_TOPIC_OR_PART"
        assert error_of(futures["twice"]) == ("INVALID_REQUEST", "Duplicate topic name.")
        assert (job.partitions("made"), job.partitions("other")) == (None, None)


def test_the_future_has_the_clusters_own_error(job):
    with QuotaAdminClient(job.config("careless")) as admin:
        futures = admin.create_topics(
            [
                NewTopic("bad/name", 1),
                NewTopic("odd", 1, config={"x": "1"}),
            ]
        )
        assert error_of(futures["bad/name"])[1].startswith("Topic name is invalid: 'bad/name'")
        assert error_of(futures["odd"]) == ("INVALID_CONFIG", "Unknown topic config name: x")
        twice = admin.create_topics([NewTopic("same", 1), NewTopic("same", 1)])
        assert error_of(twice["same"]) == ("INVALID_REQUEST", "Duplicate topic name.")
        grown = admin.create_partitions([NewPartitions("never-was", 3)])
        assert error_of(grown["never-was"])[0] == "UNKNOWN_TOPIC_OR_PART"
        assert job.partitions("same") is None


def test_an_invalid_request_fails_with_the_reason_of_its_dead_letter(job):
    with QuotaAdminClient(job.config("wrong")) as admin:
        assert admin.create_topics([NewTopic("grown", 1)])["grown"].result(60) is None
        future = admin.create_partitions([NewPartitions("grown", -5)])["grown"]
        assert error_of(future) == ("INVALID_REQUEST", "topics[0].count: expected int >= 0 (value: -5)")


def test_a_creation_that_the_cluster_would_not_make_is_not_charged(job):
    job.limit("careless", 1)
    with QuotaAdminClient(job.config("careless")) as admin:
        assert admin.create_topics([NewTopic("careless", 1)])["careless"].result(60) is None
        for name, code in (("careless", "TOPIC_ALREADY_EXISTS"), ("bad name", "TOPIC_EXCEPTION")):
            future = admin.create_topics([NewTopic(name, 1000)])[name]
            assert (error_of(future)[0], future.decision_id) == (code, None)
        assert (
            admin.create_topics([NewTopic("careless-too", 1)], retry_on_quota_violation=False)["careless-too"].result(
                60
            )
            is None
        )


def test_without_retries_rejected_topics_fail_at_once_and_the_others_are_created(job):
    job.limit("hasty")
    with QuotaAdminClient(job.config("hasty")) as admin:
        topics = [NewTopic("hasty-first", BURST + 40), NewTopic("hasty-second", 1)]
        futures = admin.create_topics(topics, retry_on_quota_violation=False)
        assert futures["hasty-first"].result(60) is None
        error = futures["hasty-second"].exception(60)
        assert isinstance(error, ThrottlingQuotaExceededError)
        assert isinstance(error, KafkaException)
        assert (error.args[0].code(), error.retryable) == (KafkaError.THROTTLING_QUOTA_EXCEEDED, True)
        assert error.throttle_time_ms == 4000  # forty below zero, at ten a second
        assert (job.partitions("hasty-first"), job.partitions("hasty-second")) == (BURST + 40, None)


def test_with_retries_rejected_topics_are_created_after_the_throttle_time(job):
    job.limit("patient")
    with QuotaAdminClient(job.config("patient")) as admin:
        began = time.monotonic()
        futures = admin.create_topics([NewTopic("patient-first", BURST + 20), NewTopic("patient-second", 1)])
        futures["patient-first"].result(60)
        assert not futures["patient-second"].done()
        futures["patient-second"].result(60)
        assert time.monotonic() - began >= 2.0
        until(lambda: job.partitions("patient-second") == 1)  # a broker may learn of it later than the client


def test_validate_only_costs_nothing_and_creates_nothing(job):
    job.limit("checker")
    with QuotaAdminClient(job.config("checker")) as admin:
        for _ in range(3):
            futures = admin.create_topics([NewTopic("checker-one", 100)], validate_only=True)
            assert futures["checker-one"].result(60) is None
        futures = admin.create_topics([NewTopic("bad/name", 1)], validate_only=True)
        assert error_of(futures["bad/name"])[1].startswith("Topic name is invalid")
        assert job.partitions("checker-one") is None


def test_a_client_without_a_decision_fails_and_recovers_with_the_job(job):
    job.stop()
    try:
        closed = QuotaAdminClient(job.config("silent") | {"default.api.timeout.ms": 3000})
        began = time.monotonic()
        failing = closed.create_topics([NewTopic("silent-closed", 1)])["silent-closed"]
        name, message = error_of(failing)
        assert (name, 2.9 <= time.monotonic() - began < 30) == ("_TIMED_OUT", True)
        assert message.startswith("no decision on topic silent-closed in time; is mutation-quota enforce running on")
        waiting = closed.create_topics([NewTopic("silent-waiting", 1)], request_timeout=60)["silent-waiting"]
    finally:
        job.start()
    assert waiting.result(60) is None
    assert closed.create_topics([NewTopic("silent-back", 1)], request_timeout=60)["silent-back"].result(60) is None
    assert (job.partitions("silent-closed"), job.partitions("silent-back")) == (None, 1)
    closed.close()


def test_an_unavailable_target_does_not_prevent_closing(job):
    away = {**QUIET, "bootstrap.servers": f"127.0.0.1:{free_port()}"}
    control = {"mutation.quota.kafka.bootstrap_servers": job.settings.kafka.bootstrap_servers}
    admin = QuotaAdminClient({**job.config("away"), **away, **control})
    futures = [admin.create_topics([NewTopic("away", 1)])["away"], admin.delete_topics(["away"])["away"]]
    began = time.monotonic()
    admin.close(wait=False)
    assert time.monotonic() - began < 30
    assert all(isinstance(future.exception(0), KafkaException) for future in futures)


def test_a_client_that_cannot_reach_the_deciding_cluster_reports_it(job):
    nowhere = f"127.0.0.1:{free_port()}"
    control = {"mutation.quota.kafka.bootstrap_servers": nowhere, "mutation.quota.kafka.timeout_seconds": 1}
    config = {**job.config("alone"), **control}
    with pytest.raises(ClusterError, match=nowhere):
        QuotaAdminClient(config)


def test_asyncio_waits_for_the_futures_of_a_client(job):
    async def make():
        futures = admin.create_topics([NewTopic("async-one", 1), NewTopic("async/bad", 1)]).values()
        return await asyncio.gather(*map(asyncio.wrap_future, futures), return_exceptions=True)

    with QuotaAdminClient(job.config("async")) as admin:
        made, failed = asyncio.run(make())
    assert (made, job.partitions("async-one")) == (None, 1)
    assert failed.args[0].str().startswith("Topic name is invalid")


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({}, "bootstrap.servers is missing"),
        ({"bootstrap.servers": "x", "mutation.quota.client.applied_by": "x"}, "unknown setting client.applied_by"),
        ({"bootstrap.servers": "x", "mutation.quota.clients.user": "a"}, "unknown setting clients.user"),
        ({"bootstrap.servers": "x", "default.api.timeout.ms": "1m"}, "from 1 to 86,400,000, not '1m'"),
    ],
)
def test_an_unusable_configuration_is_reported(config, message):
    with pytest.raises(BadInput, match=message):
        QuotaAdminClient(config)


def test_a_cluster_without_the_topics_is_reported(job):
    with pytest.raises(ClusterError, match="topic nothing-here: Broker: Unknown topic"):
        QuotaAdminClient({**job.config("lost"), "mutation.quota.topics.decisions": "nothing-here"})
