"""The records of the quota log out of the table that keeps them all."""

import msgspec

from jobs.spark.rows import Row
from quota.records.callback import CallbackSetting
from quota.records.cluster import Cluster
from quota.records.entity import QuotaEntity
from quota.records.quota_log import FIELDS, CallbackRecord, ClusterRecord, LogRecord, QuotaRecord, ResetRecord

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
