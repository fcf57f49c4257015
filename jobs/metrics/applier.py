"""An applier as it goes, for the metrics: what it has carried out, and how far it is behind the decisions."""

import time
from collections.abc import Iterator, Mapping

from prometheus_client.metrics_core import Metric as Family

from jobs.metrics.families import applier_families, query_families
from jobs.metrics.query_progress import QueryProgress, QueryView
from quota.kafka.applier.stats import ApplierStats
from quota.kafka.log_ends import EndOffsets, Partition
from quota.settings.model import Settings

NAME = "apply"
"""What the applier is called among the queries: its batches are told of as theirs are."""

_ENDS_SECONDS = 5.0


class ApplierMetrics:
    """Looks at the tally of an applier, and asks now and then where the decisions end."""

    def __init__(self, settings: Settings, tally: ApplierStats) -> None:
        self._tally = tally
        self._started_at = time.time()
        self._connection = EndOffsets(settings.kafka.connection, settings.kafka.timeout_seconds)
        self._ends: Mapping[Partition, int] = {}
        self._asked = float("-inf")

    def step(self) -> None:
        """Ask, if it is time.

        Raises:
            ClusterError: the cluster does not tell where topics end.
        """
        now = time.monotonic()
        if self._tally.places and now - self._asked >= _ENDS_SECONDS:
            self._asked = now
            self._ends = self._connection.of(self._tally.places.keys())

    def families(self) -> Iterator[Family]:
        """What there is to tell of it."""
        tally = self._tally
        last = QueryProgress(
            batch=tally.batches - 1,
            ended_at=tally.ended_at or self._started_at,
            phases={},
            positions=tally.places,
            state_rows=None,
            state_bytes=None,
        )
        yield from query_families({NAME: QueryView(self._started_at, 0.0, last, self._ends)})
        yield from applier_families(tally)
