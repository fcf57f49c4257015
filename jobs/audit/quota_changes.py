"""The quota changes table: its rows from records of the quota log, and the log, which compaction has cut, from it."""

from collections.abc import Mapping
from typing import Any

import msgspec
import pyarrow.compute as pc
import pyarrow.dataset as ds

from jobs.audit.reader import open_table, to_datetime, to_epoch_ms
from jobs.audit.tables import QUOTA_CHANGES
from quota.records import codec
from quota.records.entity import QuotaEntity
from quota.records.quota_log import (
    QUOTA_CONFIGS,
    CallbackRecord,
    CallbackSetting,
    Cluster,
    ClusterRecord,
    QuotaLogEntry,
    QuotaLogRecord,
    QuotaRecord,
    ResetRecord,
)
from quota.settings import Settings
from quota.text import display_name
from quota.timeline.change import to_change

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
    rows.sort(key=lambda row: (row["source"]["partition"], row["source"]["offset"]))
    return [row_to_entry(row) for row in rows]


def metadata_at(settings: Settings, at: int) -> int | None:
    """Return the time of the cluster's metadata that were in force at a time (epoch ms); None for none."""
    last = to_datetime(at)
    condition = (ds.field("kind") == _CLUSTER) & (ds.field("effective_at") <= last)
    rows = open_table(settings, QUOTA_CHANGES).dataset(last=last.date())
    return to_epoch_ms(pc.max(rows.to_table(columns=["effective_at"], filter=condition)["effective_at"]).as_py())


def row_to_entry(row: dict[str, Any]) -> QuotaLogEntry:
    """Return the log entry of a row of the table."""
    in_ms = row | {name: to_epoch_ms(row[name]) for name in _TIMES}
    return QuotaLogEntry(row["source"]["offset"], in_ms["timestamp"] or 0, row_to_record(in_ms))


_tags_decoder = msgspec.json.Decoder(dict[str, str])
_topics_decoder = msgspec.json.Decoder(dict[str, list[int | None]])


def record_to_row(record: QuotaLogRecord, timestamp: int) -> dict[str, Any]:
    """Return the columns of a record with this timestamp (epoch ms); times are epoch ms, missing columns are null."""
    row: dict[str, Any] = {
        "effective_at": to_change(record, timestamp).moment,
        "altered_by": record.altered_by,
        "comment": record.comment,
    }
    match record:
        case QuotaRecord(entity, cancelled=cancelled):
            return row | {
                "kind": "cancel" if cancelled else "quota",
                "entity": entity.key.decode(),
                "user": display_name(entity.user),
                "client_id": display_name(entity.client_id),
                "altered_configs": record.altered_configs,
                **{name: getattr(record, name) for name in QUOTA_CONFIGS},
            }
        case ResetRecord(bucket):
            return row | {
                "kind": "bucket_reset",
                "bucket": codec.encode(bucket).decode(),
                "user": bucket.get("user"),
                "client_id": bucket.get("client-id"),
            }
        case CallbackRecord(setting, cancelled=cancelled):
            return row | {
                "kind": "callback_cancel" if cancelled else "callback",
                "callback": setting.class_name if setting else None,
                "callback_configs": setting.configs if setting else None,
                "altered_configs": record.altered_configs,
            }
        case ClusterRecord(cluster):
            return row | {"kind": "cluster", "cluster": codec.encode(cluster.topics).decode()}


def row_to_record(row: Mapping[str, Any]) -> QuotaLogRecord:
    """Return the record of a row whose times are epoch ms; its `effective_at` is the time when it takes effect."""
    common = {name: row[name] for name in ("effective_at", "altered_by", "comment")}
    kind, altered = row["kind"], row.get("altered_configs")  # absent in tables of an older version
    if kind in ("quota", "cancel"):
        configs: dict[str, Any] = {name: row.get(name) for name in QUOTA_CONFIGS} | {"shadow": bool(row["shadow"])}
        entity = QuotaEntity.from_key(row["entity"])
        return QuotaRecord(entity, **configs, **common, altered_configs=altered, cancelled=kind == "cancel")
    if kind in ("callback", "callback_cancel"):
        setting = CallbackSetting(row["callback"], dict(row["callback_configs"] or {})) if row["callback"] else None
        return CallbackRecord(setting, **common, altered_configs=altered, cancelled=kind == "callback_cancel")
    if kind == "bucket_reset":
        return ResetRecord(_tags_decoder.decode(row["bucket"]), **common)
    if kind == "cluster":
        return ClusterRecord(Cluster(_topics_decoder.decode(row["cluster"])), **common)
    raise ValueError(f"a quota change of kind {kind!r}")
