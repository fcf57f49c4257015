"""The metrics of running queries: their last batches, and the end offsets of the topics that they read."""

import json
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from prometheus_client.metrics_core import Metric as Family
from pyspark.sql.streaming.query import StreamingQuery

from jobs.metrics.collector import Work
from jobs.metrics.families import query_families, upkeep_family
from jobs.metrics.query_progress import QueryProgress, QueryView
from quota.kafka.reading import EndOffsets
from quota.kafka.timing import Every
from quota.settings import Settings

_POLL_SECONDS = 1.0
_ENDS_SECONDS = 5.0


class QueryMetrics(Work):
    """Polls queries for their last batches.

    A Spark listener would receive every batch through a Py4J server in this process, which slows down each batch;
    Prometheus needs the metrics only a few times a minute.
    """

    def __init__(self, settings: Settings) -> None:
        self.upkeep_failures: Counter[str] = Counter()
        """The failures of the upkeep by table, which the queries count."""
        self._settings = settings
        self._ends = EndOffsets(settings.kafka.connection, settings.kafka.timeout_seconds)
        self._queries: Sequence[StreamingQuery] = ()
        self._views: dict[str, QueryView] = {}
        self._poll = Every(_POLL_SECONDS)
        self._fetch_ends = Every(_ENDS_SECONDS)

    def watch(self, queries: Sequence[StreamingQuery]) -> None:
        """Poll these queries from now on; a query is named after its section of the settings."""
        started_at = time.time()
        triggers = {each.name: getattr(self._settings, each.name).trigger_seconds for each in queries}
        self._views = {name: QueryView(started_at, seconds) for name, seconds in triggers.items()}
        self._queries = queries

    def poll(self) -> None:
        """Poll the queries if they are due.

        Raises:
            ClusterError: the cluster does not return the end offsets.
        """
        if not self._poll.is_due():
            return
        for query in self._queries:
            status = query.status
            under_way = status["isTriggerActive"] and status["isDataAvailable"]
            view = replace(self._views[query.name], last=_last_batch(query), under_way=under_way)
            self._views[query.name] = view
        if self._fetch_ends.is_due():
            for name, view in self._views.items():
                self._views[name] = replace(
                    view, ends=self._ends.fetch(view.last.positions.keys() if view.last else ())
                )

    def families(self) -> Iterator[Family]:
        """Return the metrics as of the last poll."""
        yield from query_families(dict(self._views))
        yield upkeep_family(self.upkeep_failures)


def _last_batch(query: StreamingQuery) -> QueryProgress | None:
    """Return the last batch of a query; None before the first one of its run."""
    progress = query.lastProgress
    return None if progress is None else QueryProgress.read(json.loads(progress.json))
