"""An operator who runs the jobs on a deployment and reads their results."""

import threading
from pathlib import Path

from confluent_kafka import TopicPartition

from jobs.audit.query import start_audit
from jobs.enforce.query import start_enforce
from jobs.metrics.queries import QueryObserver
from jobs.services.streaming import observing
from jobs.spark.failures import with_operator_advice
from jobs.spark.queries import await_queries
from jobs.storage.checkpoint import current_folder
from jobs.storage.files import DeploymentSession
from quota.kafka.quotas.writer import write_record
from quota.kafka.topics.preparation import prepare_topics
from quota.records.entity import QuotaEntity
from quota.records.quota_log import QuotaRecord
from schemas.buckets import STATE_VERSION
from tests.support.deployment import with_sections
from tests.support.factories import request_json
from tests.support.tables import read_table
from tests.support.topics import admin_of, decisions_of, produce

HARDLY_ANY = 1e-6
"""A rate too low to pay back debt during a test, mutations/s."""


def enforce_once(run):
    """Decide the waiting requests, as the program does with `--once`."""
    stop, observer = threading.Event(), QueryObserver(run.settings)
    query = start_enforce(run, once=True)
    observer.watch(run.spark, [query], stop)
    await_queries(stop, [query], observing(run, observer))


class Operator:
    """An operator of a deployment whose users have a burst of 100 mutations each."""

    def __init__(self, spark, settings):
        self._spark = spark
        self.settings = settings
        self.root = Path(settings.storage.root)
        self._admin = admin_of(settings)
        prepare_topics(settings)
        write_record(settings, QuotaRecord(QuotaEntity(None), HARDLY_ANY, controller_mutation_burst=100.0))

    def request(self, *names):
        """Produce requests for 60 partitions each, with these ids."""
        produce(self.settings, self.settings.topics.requests, *[request_json(60, request_id=name) for name in names])

    def enforce(self, spark=(), **changed):
        """Decide the waiting requests, as the program does with `--once`."""
        settings = with_sections(self.settings, enforce=changed, spark=dict(spark))
        with with_operator_advice(settings):
            enforce_once(DeploymentSession.on(self._spark, settings))

    def delete_before(self, offset):
        """Remove the requests before an offset, as retention does."""
        cut = [TopicPartition(self.settings.topics.requests, 0, offset)]
        for future in self._admin.delete_records(cut).values():
            future.result()

    def delete_topic(self, topic):
        for future in self._admin.delete_topics([topic]).values():
            future.result()

    def audit(self):
        with with_operator_advice(self.settings):
            await_queries(threading.Event(), [start_audit(DeploymentSession.on(self._spark, self.settings), once=True)])

    @property
    def run(self):
        return DeploymentSession.on(self._spark, self.settings)

    @property
    def files(self):
        return self.run.files

    @property
    def checkpoint(self):
        return Path(self.root, current_folder(self.files, "enforce"), f"v{STATE_VERSION}")

    @property
    def decided(self):
        """Tokens after each decision by its request id; copies of a decision must be equal."""
        return {
            decision["request_id"]: round(decision["tokens"], 1) for decision in decisions_of(self.settings).values()
        }

    @property
    def all_decided(self):
        """The decisions in the order of their requests, without copies."""
        return sorted(decisions_of(self.settings).values(), key=lambda decision: decision["source"]["offset"])

    @property
    def audited(self):
        """Request ids in the table of decisions, sorted."""
        return sorted(row["request_id"] for row in read_table(self.settings, "decisions"))
