"""The collector of a running job's metrics."""

import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator

from prometheus_client.metrics_core import Metric as Family

from jobs.metrics import definitions as metric
from jobs.metrics.answers import AnswerMetrics
from jobs.metrics.families import number_family
from quota.settings import Settings

_log = logging.getLogger(__name__)

_POLL_SECONDS = 0.2
_RETRY_SECONDS = 2.0
_MANY_ANSWERS = 1000
"""If one poll returns this number of answers, more are probably waiting."""


class Work(ABC):
    """The metrics of a job's own work."""

    def poll(self) -> None:  # noqa: B027 most have nothing to fetch
        """Update the metrics; called a few times per second on a separate thread."""

    @abstractmethod
    def families(self) -> Iterator[Family]:
        """Return the metrics as of now."""


class JobMetrics:
    """A collector of prometheus-client that follows a job on its own thread; its errors do not affect the job."""

    def __init__(self, settings: Settings, work: Work, *, decides: bool) -> None:
        """Start without metrics.

        Args:
            settings: the settings of the job.
            work: the metrics of the job's own work.
            decides: whether the job decides requests, and so reports the metrics of decisions.
        """
        self._settings = settings
        self._work = work
        self._decides = decides
        self._answers: AnswerMetrics | None = None
        self._failures = 0
        self._logged: set[str] = set()

    def collect(self) -> Iterator[Family]:
        """Return all metrics as of now."""
        if self._answers is not None:
            yield from self._answers.families()
        yield from self._work.families()
        yield number_family(metric.FAILURES, self._failures)

    def follow(self, stop: threading.Event) -> None:
        """Follow the job until `stop` is set."""
        try:
            while not stop.is_set():
                try:
                    self._work.poll()
                    more = self._decides and self._poll_answers() >= _MANY_ANSWERS
                except Exception as error:  # noqa: BLE001 the job matters more than its metrics
                    self._count_failure(error)
                    stop.wait(_RETRY_SECONDS)
                else:
                    stop.wait(0 if more else _POLL_SECONDS)
        finally:
            if self._answers is not None:
                self._answers.close()

    def _poll_answers(self) -> int:
        """Record the answers that have arrived, and return their number."""
        if self._answers is None:
            self._answers = AnswerMetrics(self._settings)
        return self._answers.poll()

    def _count_failure(self, error: Exception) -> None:
        """Count a failure, and log it if it is the first of its kind."""
        self._failures += 1
        message = f"{type(error).__name__}: {error}".splitlines()[0]
        if message not in self._logged:
            self._logged.add(message)
            _log.warning("metrics: %s; the job continues", message)
