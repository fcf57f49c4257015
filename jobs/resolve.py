"""Read and resolve: from Kafka's records to requests with their bucket and quota, in one Arrow stage."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema

import jobs.worker  # noqa: F401 what the workers keep
from jobs.rows import record_of, to_row
from quota.resolution import Policy, resolve
from quota.timeline import QuotaTimeline
from schemas.buckets import RESOLVED
from schemas.kafka import RECORD


class Quotas(Protocol):
    """Where the quotas come from; it goes to the workers with each batch, so it is small when pickled."""

    def timeline(self, until: int) -> QuotaTimeline:
        """A timeline with all changes stamped up to `until` (epoch ms)."""


@dataclass(frozen=True, slots=True)
class FixedQuotas:
    """Quotas that are all known beforehand."""

    known: QuotaTimeline

    def timeline(self, until: int) -> QuotaTimeline:  # noqa: ARG002 all are known, whenever they hold
        """The known quotas."""
        return self.known


def resolve_requests(records: DataFrame, quotas: Quotas, policy: Policy) -> DataFrame:
    """Find bucket and quota of each record (`schemas.kafka.RECORD`): `schemas.buckets.RESOLVED`."""
    return records.select(*_bounded(policy.max_bytes)).mapInArrow(partial(_resolve_batches, quotas, policy), RESOLVED)


def _bounded(max_bytes: int) -> list[Column]:
    """The record, of whose key and value nothing goes to Python that is behind what may be judged."""
    return [
        F.substring(name, 1, max_bytes + 1).alias(name) if name in {"key", "value"} else F.col(name)
        for name in RECORD.names
    ]


def _resolve_batches(quotas: Quotas, policy: Policy, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    schema = to_arrow_schema(RESOLVED)
    for batch in batches:
        rows = batch.to_pylist()
        if rows:
            timeline = quotas.timeline(max(row["timestamp"] for row in rows))
            resolved = [to_row(row, resolve(record_of(row), timeline, policy)) for row in rows]
            yield pa.RecordBatch.from_pylist(resolved, schema)
