"""The collector of a running job's metrics: those of its own work, and those of the answers that arrive."""

import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator

from prometheus_client.metrics_core import Metric as Family

from jobs.metrics.families import decision_families, family
from jobs.metrics.totals import DecisionTotals
from quota.kafka.reading import Skipped, read_topic
from quota.kafka.requests_and_answers import AnswerReader
from quota.kafka.timing import Every, now_ms
from quota.kafka.topics.topic_admin import TopicAdmin
from quota.records.quota_log import Cluster, ClusterRecord
from quota.settings import Settings

_log = logging.getLogger(__name__)

_POLL_SECONDS = 0.2
_RETRY_SECONDS = 2.0
_MANY_ANSWERS = 1000
"""If one poll returns this number of answers, more are probably waiting."""

_ENDS_SECONDS = 5.0
_LAST_RECORDS = 50
_METADATA_KEY = ClusterRecord(Cluster({})).key
_MAX_LOGGED = 100
"""The number of errors that are logged once each; their texts may have times in them."""
_MAX_TENANTS = 500
"""The number of tenants with their own series: each has nine."""
_FETCH = {"fetch.wait.max.ms": 500, "queued.max.messages.kbytes": 4096}
"""Few requests to the broker and a small queue, because no client waits for these answers."""


class MetricsSource(ABC):
    """The metrics of a job's own work."""

    def poll(self) -> None:  # noqa: B027 the counts of some jobs are always up to date
        """Update the metrics; called a few times per second on a separate thread."""

    @abstractmethod
    def families(self) -> Iterator[Family]:
        """Return the metrics as of now."""


class AnswerMetrics:
    """Totals of the answers that arrive after the start, and the length of the quota topic. Thread-safe."""

    def __init__(self, settings: Settings) -> None:
        """Start at the current ends of the topics."""
        self._totals = DecisionTotals(settings.quota.window, _MAX_TENANTS)
        self._quota_log = (settings.topics.quotas, 0)
        self._quota_records = 0
        self._metadata_at: int | None = None
        self._settings = settings
        self._topics = TopicAdmin(settings.kafka.connection, settings.kafka.timeout_seconds)
        self._fetch_ends = Every(_ENDS_SECONDS)
        self._lock = threading.Lock()
        self._reader = AnswerReader(settings, overrides=_FETCH)

    def poll(self) -> int:
        """Record the answers that have arrived, and return their number."""
        received = list(self._reader.read(0))
        with self._lock:
            for answer in received:
                self._totals.record(answer.answer, answer.at)
        if self._fetch_ends.is_due():
            end = self._topics.offsets([self._quota_log])[self._quota_log]
            if end > self._quota_records and not self._settings.quota.callbacks.only_default:
                self._look_for_metadata(end - self._quota_records)
            self._quota_records = end
        return len(received)

    def families(self) -> Iterator[Family]:
        """Return the metrics as of now."""
        with self._lock:
            families = list(decision_families(self._totals, now_ms(), _MAX_TENANTS))
            families.append(family("mutation_quota_quota_records_total", self._quota_records))
        if self._metadata_at is not None:
            families.append(family("mutation_quota_callback_metadata_timestamp_seconds", self._metadata_at / 1000))
        return iter(families)

    def _look_for_metadata(self, newest: int) -> None:
        """Note the time of the cluster's metadata for callbacks, if the newest records of the quota log have some."""
        connection, (topic, _) = self._settings.kafka.connection, self._quota_log
        for count in sorted({min(newest, _LAST_RECORDS), newest}):  # a record of metadata may have megabytes
            messages = read_topic(connection, topic, self._settings.kafka.timeout_seconds, count)
            if found := [message.timestamp()[1] for message in messages if message.key() == _METADATA_KEY]:
                self._metadata_at = found[-1]
                return

    def close(self) -> None:
        """Close the connections to Kafka."""
        self._reader.close()


class JobMetrics:
    """A collector of prometheus-client that follows a job on its own thread; its errors do not affect the job."""

    def __init__(self, settings: Settings, work: MetricsSource, *, with_decisions: bool) -> None:
        """Start without metrics; a job `with_decisions` also reports the metrics of decisions."""
        self._settings = settings
        self._work = work
        self._with_decisions = with_decisions
        self._answers: AnswerMetrics | None = None
        self._failures = 0
        self._logged: set[str] = set()

    def collect(self) -> Iterator[Family]:
        """Return all metrics as of now."""
        if self._answers is not None:
            yield from self._answers.families()
        yield from self._work.families()
        yield family("mutation_quota_skipped_records_total", dict(Skipped.counts))
        yield family("mutation_quota_metrics_failures_total", self._failures)

    def follow(self, stop: threading.Event) -> None:
        """Follow the job until `stop` is set."""
        try:
            while not stop.is_set():
                try:
                    self._work.poll()
                    if self._with_decisions and self._answers is None:
                        self._answers = AnswerMetrics(self._settings)
                    more = self._answers is not None and self._answers.poll() >= _MANY_ANSWERS
                except Exception as error:  # noqa: BLE001 the job matters more than its metrics
                    self._count_failure(error)
                    stop.wait(_RETRY_SECONDS)
                else:
                    stop.wait(0 if more else _POLL_SECONDS)
        finally:
            if self._answers is not None:
                self._answers.close()

    def _count_failure(self, error: Exception) -> None:
        """Count a failure, and log it if it is the first of its kind."""
        self._failures += 1
        message = f"{type(error).__name__}: {error}".splitlines()[0]
        if message not in self._logged:
            if len(self._logged) >= _MAX_LOGGED:
                self._logged.clear()
            self._logged.add(message)
            _log.warning("metrics: %s; the job continues", message)
