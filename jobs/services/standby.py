"""A second `enforce` on a storage root: it waits with a warm Spark until the first one has stopped, and takes over.

It writes to no topic and to nothing in the storage root before it has the leases.
"""

import logging
import math
import time
from collections.abc import Iterator, Sequence

from prometheus_client.metrics_core import Metric as Family
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.sql import DataFrame

from jobs.enforce.query import plan_answers, warm
from jobs.metrics.endpoint import ServiceEndpoint
from jobs.metrics.families import STANDBY, family
from jobs.metrics.loops import LoopHealth
from jobs.query_names import ENFORCE
from jobs.signals import stop_signals
from jobs.spark.failures import reason_in
from jobs.storage.files import DeploymentSession
from jobs.storage.holder import Holder
from jobs.storage.lease import Lease
from quota.kafka.timing import Every

_log = logging.getLogger(__name__)

_LOOK_SECONDS = 0.05
_LOOK_AT_STORE_SECONDS = 1.0
"""A look at an object store takes two requests, which are billed."""

_SETTLED = 0.8
"""Batches have settled if the last one takes at least this share of the time of the one before."""
_KEEP_WARM_SECONDS = 40.0
"""A Python worker exits after a minute without a task."""


class StoppedStandby(Exception):
    """A signal has stopped a standby."""


class Standby:
    """Waits for the leases of queries, which another process holds; a loop and a collector of metrics."""

    def __init__(self, endpoint: ServiceEndpoint) -> None:
        self.looped_at = 0.0
        self.warm_since = 0.0
        """The time since which its Spark is warm [s since the epoch]; 0 if it is not."""
        self.answers: DataFrame | None = None
        """The plan of the query, once a round of batches has run."""
        self._endpoint = endpoint
        self._holder: Holder | None = None
        self._unreadable = ""
        """Why the leases cannot be read."""

    def wait(self, session: DeploymentSession, leases: Sequence[Lease], *, take_over: bool) -> bool:
        """Return when the first lease is acquired and the others are free; whether another process had one of them.

        A signal raises `StoppedStandby`.
        """
        self.looped_at = self.warm_since = 0.0
        self.answers = None
        if self._acquire(leases, take_over=take_over):
            return False
        health = LoopHealth(self, self._missing, limited=self._active)
        look_seconds = _LOOK_AT_STORE_SECONDS if "://" in session.files.root else _LOOK_SECONDS
        last, keep_warm = math.inf, Every(_KEEP_WARM_SECONDS, at_once=False)
        with self._endpoint.waiting(self, health), stop_signals() as stop:
            _log.info("%s: warming", self._active())
            while not stop.is_set() and not self._acquire_if_readable(leases, take_over=take_over):
                self.looped_at = time.monotonic()
                if stop.wait(look_seconds if self.warm_since else 0):
                    break
                if not self.warm_since:  # the lease of a dead process may expire meanwhile
                    before, last = last, warm(session) or math.inf
                    if self.answers is None:
                        self.answers = plan_answers(session)
                    if last >= before * _SETTLED:
                        self.warm_since = time.time()
                        _log.info("%s: ready to take over", self._active())
                elif keep_warm.is_due():
                    warm(session)
        if stop.is_set():  # after the block, at whose end a signal may have arrived
            leases[0].release()  # it may just have been acquired
            raise StoppedStandby
        _log.info("taking over")
        return True

    def _acquire(self, leases: Sequence[Lease], *, take_over: bool) -> bool:
        held = next((lease for lease in leases if not lease.is_free(take_over=take_over)), None)
        self._holder = (held or leases[0]).holder
        return held is None and leases[0].try_claim(take_over=take_over)

    def _acquire_if_readable(self, leases: Sequence[Lease], *, take_over: bool) -> bool:
        try:
            acquired = self._acquire(leases, take_over=take_over)
        except Py4JJavaError as error:
            if not self._unreadable:
                _log.warning("%s, but its lease cannot be read: %s", self._active(), reason_in(str(error)))
            self._unreadable = f"the lease cannot be read: {reason_in(str(error))}"
            return False
        self._unreadable = ""
        return acquired

    def _active(self) -> str:
        return f"standing by for {self._holder or 'another process'}"

    def _missing(self) -> str:
        return self._unreadable or ("" if self.warm_since else "it is warming")

    def collect(self) -> Iterator[Family]:
        """Yield the metrics of a standby that is ready to take over."""
        if self.warm_since:
            yield family(STANDBY, {ENFORCE: self.warm_since})
