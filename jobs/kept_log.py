"""The quota log out of the table that keeps it whole, as the records that it was made of."""

import msgspec
import pyarrow.dataset as ds

from jobs.kept_table import epoch_ms, moment, open_table, source_of
from jobs.rows import Row
from jobs.tables import QUOTA_CHANGES
from quota import codec
from quota.callbacks.setting import CallbackSetting
from quota.cluster import Cluster
from quota.entity import QuotaEntity
from quota.log_record import FIELDS, CallbackRecord, ClusterRecord, LogEntry, LogRecord, QuotaRecord, ResetRecord
from quota.settings import Settings

_CLUSTER = "cluster"

_entity_decoder = msgspec.json.Decoder(QuotaEntity)
_cluster_decoder = msgspec.json.Decoder(dict[str, list[int | None]])
_bucket_decoder = msgspec.json.Decoder(dict[str, str])


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
    """The record of a row of the table; where that does not tell what of it was new, it is taken for the whole."""
    return LogEntry(row["source"]["offset"], epoch_ms(row["timestamp"]) or 0, _record(row))


def _record(row: Row) -> LogRecord:
    kind, signed = row["kind"], (epoch_ms(row["effective_at"]), row["altered_by"], row["comment"])
    altered = row.get("altered_configs")
    match kind:
        case "bucket_reset":
            return ResetRecord(codec.decode(row["bucket"].encode(), _bucket_decoder), *signed)
        case "callback" | "callback_cancel":
            named = row.get("callback")
            setting = CallbackSetting(named, dict(row["callback_configs"] or ())) if named else None
            return CallbackRecord(setting, *signed, altered, kind == "callback_cancel")
        case "cluster":
            return ClusterRecord(Cluster(codec.decode(row[_CLUSTER].encode(), _cluster_decoder)), *signed)
        case _:
            rate, burst, max_debt_ms, shadow = (row[name] for name in FIELDS)
            entity = codec.decode(row["entity"].encode(), _entity_decoder)
            return QuotaRecord(entity, rate, burst, max_debt_ms, bool(shadow), *signed, altered, kind == "cancel")


def _place(row: Row) -> tuple[int, int]:
    source = source_of(row)
    return source.partition, source.offset
