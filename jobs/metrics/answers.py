"""The metrics of answers: decisions and dead letters as they arrive, and the length of the quota topic."""

import threading
from collections.abc import Iterator

from prometheus_client.metrics_core import Metric as Family

from jobs.metrics import definitions as metric
from jobs.metrics.families import decision_families, number_family
from jobs.metrics.totals import DecisionTotals
from quota.kafka.reading import EndOffsets
from quota.kafka.requests import AnswerReader
from quota.kafka.timing import Every, now_ms
from quota.settings import Settings

_ENDS_SECONDS = 5.0

_FETCH = {"fetch.wait.max.ms": 500, "queued.max.messages.kbytes": 4096}
"""Few requests to the broker and a small queue, because no client waits for these answers."""


class AnswerMetrics:
    """Totals of the answers that arrive after the start. Thread-safe."""

    def __init__(self, settings: Settings) -> None:
        """Start at the current ends of the topics.

        Raises:
            ClusterError: the cluster does not respond in time.
        """
        self._max_tenants = settings.metrics.max_tenants
        self._totals = DecisionTotals(settings.quota.window, self._max_tenants)
        self._quota_log = (settings.topics.quotas, 0)
        self._quota_records = 0
        self._ends = EndOffsets(settings.kafka.connection, settings.kafka.timeout_seconds)
        self._fetch_ends = Every(_ENDS_SECONDS)
        self._lock = threading.Lock()
        self._reader = AnswerReader(settings, overrides=_FETCH)

    def poll(self) -> int:
        """Record the answers that have arrived, and return their number.

        Raises:
            ClusterError: the cluster does not return the end of the quota topic.
        """
        received = list(self._reader.read(0))
        with self._lock:
            for each in received:
                self._totals.record(each.answer, each.at)
        if self._fetch_ends.is_due():
            self._quota_records = self._ends.fetch([self._quota_log])[self._quota_log]
        return len(received)

    def families(self) -> Iterator[Family]:
        """Return the metrics as of now."""
        with self._lock:
            families = list(decision_families(self._totals, now_ms(), self._max_tenants))
        return iter([*families, number_family(metric.QUOTA_RECORDS, self._quota_records)])

    def close(self) -> None:
        """Close the connections to Kafka."""
        self._reader.close()
