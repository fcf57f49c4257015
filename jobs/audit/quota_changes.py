"""The quota log from the quota changes table, with the records that compaction has removed from the topic."""

from typing import Any

import pyarrow.dataset as ds

from jobs.audit.quota_change_rows import row_to_record
from jobs.audit.tables.reader import open_table, to_datetime, to_epoch_ms
from jobs.audit.tables.specs import QUOTA_CHANGES
from quota.records.quota_log import QuotaLogEntry
from quota.settings import Settings

_CLUSTER = "cluster"
_TIMES = ("timestamp", "effective_at")


def read_quota_log(settings: Settings, until: int, *, with_clusters: bool) -> list[QuotaLogEntry]:
    """Read the changes up to a time, in the log's order.

    Only callbacks need the cluster's metadata, of which a record may have megabytes (`with_clusters`).
    """
    last = to_datetime(until)
    condition = ds.field("timestamp") <= last
    if not with_clusters:
        condition &= ds.field("kind") != _CLUSTER
    rows = open_table(settings, QUOTA_CHANGES).dataset(last=last.date()).to_table(filter=condition).to_pylist()
    return [row_to_entry(row) for row in sorted(rows, key=log_position)]


def row_to_entry(row: dict[str, Any]) -> QuotaLogEntry:
    """Return the log entry of a row of the table."""
    in_ms = row | {name: to_epoch_ms(row[name]) for name in _TIMES}
    return QuotaLogEntry(row["source"]["offset"], in_ms["timestamp"] or 0, row_to_record(in_ms))


def log_position(row: dict[str, Any]) -> tuple[int, int]:
    """Return the partition and offset of a row's record in the quota log."""
    return row["source"]["partition"], row["source"]["offset"]
