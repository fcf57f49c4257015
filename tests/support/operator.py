"""Who runs the jobs, and looks at what comes out of them."""

import threading
from pathlib import Path

from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from jobs.audit.query import start_audit
from jobs.enforce.query import start_enforce
from jobs.spark.failures import with_operator_advice
from jobs.spark.queries import run_until
from jobs.storage.checkpoint import FirstBatch
from jobs.storage.files import Files
from quota.kafka.quota_writer import write_record
from quota.kafka.topics.specs import prepare_topics
from quota.records.entity import QuotaEntity
from quota.records.quota_log import QuotaRecord
from quota.settings.storage import checkpoint_path
from schemas.buckets import STATE_VERSION
from tests.support.factories import request_json
from tests.support.records import consume_all, produce, table

HARDLY_ANYTHING = 1e-6
"""A rate at which no debt is paid back while a test runs, mutations/s."""


class Operator:
    """Who runs the jobs on a deployment whose users have 100 mutations each, and looks at what comes out."""

    def __init__(self, spark, settings):
        self._spark = spark
        self.settings = settings
        self.root = Path(settings.storage.root)
        self._admin = AdminClient({"bootstrap.servers": settings.kafka.bootstrap_servers})
        prepare_topics(settings)
        write_record(settings, QuotaRecord(QuotaEntity(None), HARDLY_ANYTHING, controller_mutation_burst=100.0))

    def ask(self, *names):
        """Requests for 60 partitions each."""
        produce(self.settings, self.settings.topics.requests, *[request_json(60, request_id=name) for name in names])

    def enforce(self, **changed):
        """Enforce what is there, as the program does it."""
        settings = self._changed(enforce=changed)
        with with_operator_advice(settings):
            query = start_enforce(self._spark, settings, once=True)
            run_until(threading.Event(), [query], FirstBatch(self.files, query, STATE_VERSION).look)

    def retain(self, offset):
        """Have retention remove the requests before an offset."""
        cut = [TopicPartition(self.settings.topics.requests, 0, offset)]
        for future in self._admin.delete_records(cut).values():
            future.result()

    def delete(self, topic):
        for future in self._admin.delete_topics([topic]).values():
            future.result()

    def audit(self, **changed):
        settings = self._changed(audit=changed)
        with with_operator_advice(settings):
            run_until(threading.Event(), [start_audit(self._spark, settings, once=True)])

    @property
    def files(self):
        return Files(self._spark, self.settings)

    @property
    def checkpoint(self):
        return Path(checkpoint_path(self.settings, "enforce", STATE_VERSION))

    @property
    def decided(self):
        """What came out, a request once: its name and the tokens after it; copies are the same."""
        copies = {}
        for _, decision in consume_all(self.settings, self.settings.topics.decisions):
            assert copies.setdefault(decision["decision_id"], decision) == decision
        return {each["request_id"]: round(each["tokens"], 1) for each in copies.values()}

    @property
    def all_decided(self):
        """The decisions in the order of their requests, each once."""
        found = {each["decision_id"]: each for _, each in consume_all(self.settings, self.settings.topics.decisions)}
        return sorted(found.values(), key=lambda each: each["source"]["offset"])

    @property
    def kept(self):
        """What the audit kept."""
        return sorted(row["request_id"] for row in table(self.settings, "decisions"))

    def _changed(self, **sections):
        changed = {name: getattr(self.settings, name).model_copy(update=keys) for name, keys in sections.items()}
        return self.settings.model_copy(update=changed)
