"""The metrics of a running applier: its results, and its lag in the decisions topic."""

import time
from collections.abc import Iterator, Mapping

from prometheus_client.metrics_core import Metric as Family

from jobs.metrics.collector import Work
from jobs.metrics.families import applier_families, query_families
from jobs.metrics.query_progress import QueryProgress, QueryView
from quota.kafka.applier.stats import ApplierStats
from quota.kafka.reading import EndOffsets, Partition
from quota.kafka.timing import Every
from quota.settings import Settings

NAME = "applier"
"""The name of the applier in the metrics of queries, which also report its batches."""

_ENDS_SECONDS = 5.0


class ApplierMetrics(Work):
    """Reads the counts of an applier, and regularly fetches the log end offsets of the decisions topic."""

    def __init__(self, settings: Settings, stats: ApplierStats) -> None:
        self._stats = stats
        self._started_at = time.time()
        self._end_offsets = EndOffsets(settings.kafka.connection, settings.kafka.timeout_seconds)
        self._ends: Mapping[Partition, int] = {}
        self._fetch_ends = Every(_ENDS_SECONDS)

    def poll(self) -> None:
        """Fetch the end offsets if they are due.

        Raises:
            ClusterError: the cluster does not return the end offsets.
        """
        if self._stats.positions and self._fetch_ends.is_due():
            self._ends = self._end_offsets.fetch(self._stats.positions.keys())

    def families(self) -> Iterator[Family]:
        """Return the metrics as of now."""
        stats = self._stats
        last = QueryProgress(
            batch=stats.batches - 1,
            ended_at=stats.ended_at or self._started_at,
            phases={},
            positions=stats.positions,
            state_rows=None,
            state_bytes=None,
        )
        yield from query_families({NAME: QueryView(self._started_at, 0.0, last, self._ends)})
        yield from applier_families(stats)
