"""The quota log out of the table that keeps it whole, as the records that it was made of."""

import pyarrow.dataset as ds

from jobs.audit.quota_history import record_of_change
from jobs.audit.reader import epoch_ms, moment, open_table, source_of
from jobs.audit.tables import QUOTA_CHANGES
from jobs.spark.rows import Row
from quota.records.quota_log import LogEntry
from quota.settings.loading import Settings

_CLUSTER = "cluster"
_TIMES = ("timestamp", "effective_at")


def kept_log(settings: Settings, until: int, *, with_clusters: bool) -> list[LogEntry]:
    """The changes that were made up to a time, in the log's order.

    Args:
        settings: of the deployment.
        until: that time, epoch ms.
        with_clusters: what the cluster consisted of, too, which may be megabytes each time; for callbacks.

    Raises:
        MutationQuotaError: the table is not there, is a newer program's, or cannot be read.
    """
    wanted = ds.field("timestamp") <= moment(until)
    if not with_clusters:
        wanted &= ds.field("kind") != _CLUSTER
    rows = open_table(settings, QUOTA_CHANGES).to_table(filter=wanted).to_pylist()
    return [log_entry(row) for row in sorted(rows, key=_place)]


def log_entry(row: Row) -> LogEntry:
    """The record of a row of the table."""
    in_ms = row | {name: epoch_ms(row[name]) for name in _TIMES}
    return LogEntry(row["source"]["offset"], in_ms["timestamp"] or 0, record_of_change(in_ms))


def _place(row: Row) -> tuple[int, int]:
    source = source_of(row)
    return source.partition, source.offset
