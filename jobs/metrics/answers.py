"""Answers as they come, for the metrics: decisions and dead letters, and how long the quota topic has grown."""

import threading
import time
from collections.abc import Iterator

from prometheus_client.metrics_core import Metric as Family

from jobs.cli.times import now_ms
from jobs.metrics import definitions as metric
from jobs.metrics.families import decision_families, number_family
from jobs.metrics.totals import DecisionTotals
from quota.kafka.log_ends import EndOffsets
from quota.kafka.requests import AnswerReader
from quota.settings.model import Settings

_ENDS_SECONDS = 5.0

_FETCH = {"fetch.wait.max.ms": 500, "queued.max.messages.kbytes": 4096}
"""Nobody waits for these answers: few requests to the broker, and little that is held."""


class AnswerMetrics:
    """Reads the answers from where their topics end; what was answered before counts for nothing. Safe for threads."""

    def __init__(self, settings: Settings) -> None:
        """Find where the topics end.

        Raises:
            ClusterError: they cannot be found in time.
        """
        self._most_tenants = settings.metrics.max_tenants
        self._account = DecisionTotals(settings.quota.window, self._most_tenants)
        self._quotas = (settings.topics.quotas, 0)
        self._quota_records = 0
        self._ends = EndOffsets(settings.kafka.connection, settings.kafka.timeout_seconds)
        self._asked = float("-inf")
        self._lock = threading.Lock()
        self._reader = AnswerReader(settings, config=_FETCH)

    def step(self) -> int:
        """Take in what has come, and say how much that was.

        Raises:
            ClusterError: the cluster does not tell where the quota topic ends.
        """
        heard = list(self._reader.read(0))
        with self._lock:
            for each in heard:
                self._account.hear(each.answer, each.at)
        if time.monotonic() - self._asked >= _ENDS_SECONDS:
            self._asked = time.monotonic()
            self._quota_records = self._ends.of([self._quotas])[self._quotas]
        return len(heard)

    def families(self) -> Iterator[Family]:
        """What they come to by now."""
        with self._lock:
            families = list(decision_families(self._account, now_ms(), self._most_tenants))
        return iter([*families, number_family(metric.QUOTA_RECORDS, self._quota_records)])

    def close(self) -> None:
        """Let go of the connection."""
        self._reader.close()
