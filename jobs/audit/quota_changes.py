"""The quota log out of the table that keeps it whole, as the records that it was made of."""

import msgspec
import pyarrow.dataset as ds

from jobs.audit.reader import epoch_ms, moment, open_table, source_of
from jobs.audit.tables import QUOTA_CHANGES
from quota.records.callback import CallbackSetting
from quota.records.entity import QuotaEntity
from quota.records.quota_log import (
    FIELDS,
    CallbackRecord,
    Cluster,
    ClusterRecord,
    LogEntry,
    LogRecord,
    QuotaRecord,
    ResetRecord,
)
from quota.records.record import Row
from quota.settings.model import Settings

_tags_decoder = msgspec.json.Decoder(dict[str, str])
_topics_decoder = msgspec.json.Decoder(dict[str, list[int | None]])


def record_of_change(row: Row) -> LogRecord:
    """The record of the quota log in a row of the table, whose times are epoch ms.

    Raises:
        ValueError: of a kind that this program does not know.
    """
    told = {name: row[name] for name in ("effective_at", "altered_by", "comment")}
    kind, altered = row["kind"], row.get("altered_configs")  # a table of an older version has not
    if kind in ("quota", "cancel"):
        fields = {name: row[name] for name in FIELDS} | {"shadow": bool(row["shadow"])}
        entity = QuotaEntity.of_key(row["entity"])
        return QuotaRecord(entity, **fields, **told, altered_configs=altered, cancelled=kind == "cancel")
    if kind in ("callback", "callback_cancel"):
        configs = dict(row["callback_configs"] or {})
        setting = CallbackSetting(row["callback"], configs) if row["callback"] else None
        return CallbackRecord(setting, **told, altered_configs=altered, cancelled=kind == "callback_cancel")
    if kind == "bucket_reset":
        return ResetRecord(_tags_decoder.decode(row["bucket"]), **told)
    if kind == "cluster":
        return ClusterRecord(Cluster(_topics_decoder.decode(row["cluster"])), **told)
    raise ValueError(f"a quota change of kind {kind!r}")


_CLUSTER = "cluster"
_TIMES = ("timestamp", "effective_at")


def read_quota_log(settings: Settings, until: int, *, with_clusters: bool) -> list[LogEntry]:
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
