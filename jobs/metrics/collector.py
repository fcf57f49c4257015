"""What a running job knows of itself for its metrics."""

import logging
import threading
from collections.abc import Iterator

from prometheus_client.metrics_core import Metric as Family

from jobs.metrics import definitions as metric
from jobs.metrics.answers import AnswerMetrics
from jobs.metrics.applier import ApplierMetrics
from jobs.metrics.families import number_family
from jobs.metrics.queries import QueryMetrics
from quota.settings.model import Settings

_log = logging.getLogger(__name__)

_STEP_SECONDS = 0.2
_AGAIN_SECONDS = 2.0
_MANY = 1000
"""So many answers at once: there are likely to be more."""


class JobMetrics:
    """Follows a job from a thread of its own, in which nothing that goes wrong stops the job or keeps it waiting.

    A collector of prometheus-client.
    """

    def __init__(self, settings: Settings, work: QueryMetrics | ApplierMetrics, *, decides: bool) -> None:
        """Know nothing yet.

        Args:
            settings: the settings.
            work: what tells of the job's own work.
            decides: whether it is the job that decides, and so the one that tells of decisions.
        """
        self._settings = settings
        self._work = work
        self._decides = decides
        self._answers: AnswerMetrics | None = None
        self._failures = 0
        self._told: set[str] = set()

    def collect(self) -> Iterator[Family]:
        """All families as of now."""
        if self._answers is not None:
            yield from self._answers.families()
        yield from self._work.families()
        yield number_family(metric.FAILURES, self._failures)

    def follow(self, stop: threading.Event) -> None:
        """Follow the job until `stop` is set."""
        try:
            while not stop.is_set():
                try:
                    self._work.step()
                    more = self._decides and self._hear() >= _MANY
                except Exception as error:  # noqa: BLE001 the job is worth more than what it tells of itself
                    self._failed(error)
                    stop.wait(_AGAIN_SECONDS)
                else:
                    stop.wait(0 if more else _STEP_SECONDS)
        finally:
            if self._answers is not None:
                self._answers.close()

    def _hear(self) -> int:
        """How much was heard."""
        if self._answers is None:
            self._answers = AnswerMetrics(self._settings)
        return self._answers.step()

    def _failed(self, error: Exception) -> None:
        """Count a failure, and tell of it once."""
        self._failures += 1
        said = f"{type(error).__name__}: {error}".splitlines()[0]
        if said not in self._told:
            self._told.add(said)
            _log.warning("metrics: %s; the job goes on", said)
