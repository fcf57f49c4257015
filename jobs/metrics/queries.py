"""Queries as they go, for the metrics: their last batches, and where the topics end that they read."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

from prometheus_client.metrics_core import Metric as Family
from pyspark.sql.streaming.query import StreamingQuery

from jobs.audit import minutes
from jobs.audit import query as audit
from jobs.enforce import query as enforce
from jobs.metrics.families import query_families
from jobs.metrics.query_progress import QueryProgress, QueryView
from quota.kafka.log_ends import EndOffsets
from quota.settings.model import Settings

_LOOK_SECONDS = 1.0
_ENDS_SECONDS = 5.0


class QueryMetrics:
    """Asks queries for their last batch now and then.

    A listener of Spark's would be told of each batch, through a server for Py4J in this process: that has its price in
    every batch, and Prometheus looks some times a minute.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._ends = EndOffsets(settings.kafka.connection, settings.kafka.timeout_seconds)
        self._queries: Sequence[StreamingQuery] = ()
        self._views: dict[str, QueryView] = {}
        self._looked = self._asked = float("-inf")

    def watch(self, queries: Sequence[StreamingQuery]) -> None:
        """Look at these from now on."""
        settings, started_at = self._settings, time.time()
        triggers = {
            enforce.NAME: settings.enforce.trigger_seconds,
            audit.NAME: settings.audit.trigger_seconds,
            minutes.NAME: settings.minutes.trigger_seconds,
        }
        self._views = {each.name: QueryView(started_at, triggers[each.name]) for each in queries}
        self._queries = queries

    def step(self) -> None:
        """Look, if it is time.

        Raises:
            ClusterError: the cluster does not tell where topics end.
        """
        now = time.monotonic()
        if now - self._looked < _LOOK_SECONDS:
            return
        self._looked = now
        for query in self._queries:
            status = query.status
            under_way = status["isTriggerActive"] and status["isDataAvailable"]
            view = replace(self._views[query.name], last=QueryProgress.of(query), under_way=under_way)
            self._views[query.name] = view
        if now - self._asked >= _ENDS_SECONDS:
            self._asked = now
            for name, view in self._views.items():
                self._views[name] = replace(view, ends=self._ends.of(view.last.positions.keys() if view.last else ()))

    def families(self) -> Iterator[Family]:
        """What there is to tell of them."""
        return query_families(dict(self._views))
