"""The records of the quota log and their reader."""

from typing import Annotated, TypeAlias

import msgspec

from quota.errors import BadRecord
from quota.records import codec
from quota.records.callback import CallbackSetting
from quota.records.entity import QuotaEntity
from quota.records.fields import DebtMs, EpochMs, Name, Positive
from quota.records.quota import Quota

_Broker = Annotated[int, msgspec.Meta(ge=0)]
_Tags = Annotated[dict[Name, Name], msgspec.Meta(min_length=1)]


class Cluster(msgspec.Struct, frozen=True):
    """The topics of a cluster, and the leader of each partition; None for a partition without a leader."""

    topics: dict[Name, list[_Broker | None]]
    """The broker id of each partition's leader, by topic name."""

    @property
    def partitions(self) -> int:
        """The number of all partitions."""
        return sum(len(leaders) for leaders in self.topics.values())


class QuotaRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """Sets or removes the quota of an entity; options that are missing have KIP-599's defaults."""

    entity: QuotaEntity
    """The entity whose quota is set."""
    controller_mutation_rate: Positive | None
    """Q, the quota; null if it was removed [mutations/s]"""
    controller_mutation_burst: Positive | None = None
    """burst; null for Q * S * W [mutations]"""
    max_debt_ms: DebtMs | None = None
    """bound on debt, as a throttle time; null for none [ms]"""
    shadow: bool = False
    """whether the quota is in shadow: computed and reported, but not enforced"""
    effective_at: EpochMs | None = None
    """time from which the change takes effect, if it is later than the record [epoch ms]"""
    altered_by: str | None = None
    """author of the change"""
    comment: str | None = None
    """reason of the change"""
    altered_configs: list[str] | None = None
    """configs that change, if the others are copied from the previous quota; null if all are set"""
    cancelled: bool = False
    """Whether it cancels the scheduled change that it repeats; it has to come before that change takes effect."""

    @property
    def quota(self) -> Quota | None:
        """The quota that is set; None where it is removed."""
        rate = self.controller_mutation_rate
        return None if rate is None else Quota(rate, self.controller_mutation_burst, self.max_debt_ms, self.shadow)

    @property
    def key(self) -> bytes:
        """The entity, and the time of a scheduled change: without it compaction would remove the quota in force."""
        return self.entity.key if self.effective_at is None else codec.encode(_Key(self.effective_at, self.entity))


class ResetRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """Resets the buckets that have all these tags, as if they were never used (KIP-257)."""

    bucket: _Tags
    """The values of the tags by name: `user`, `client-id`, or those of a callback."""
    effective_at: EpochMs | None = None
    altered_by: str | None = None
    comment: str | None = None

    @property
    def key(self) -> bytes:
        """The tags as canonical JSON, and the time of a scheduled reset."""
        return codec.encode(_Key(self.effective_at, bucket=dict(sorted(self.bucket.items()))))


class CallbackRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """Sets the callback that resolves quotas, and its configs (KIP-257)."""

    callback: CallbackSetting | None
    """The callback; None for the one in the settings."""
    effective_at: EpochMs | None = None
    altered_by: str | None = None
    comment: str | None = None
    altered_configs: list[str] | None = None
    """The configs that change, where the rest is copied from the previous callback; None where all are set."""
    cancelled: bool = False
    """Whether it cancels the scheduled change that it repeats; it has to come before that change takes effect."""

    @property
    def key(self) -> bytes:
        """The same key for all records of this kind, with the time of a scheduled change."""
        return codec.encode(_Key(self.effective_at, about="callback"))


class ClusterRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """Sets the cluster's metadata, for callbacks that depend on partitions (KIP-257)."""

    cluster: Cluster
    """The whole cluster."""
    effective_at: EpochMs | None = None
    altered_by: str | None = None
    comment: str | None = None

    @property
    def key(self) -> bytes:
        """The same key for all records of this kind, with the time of a scheduled change."""
        return codec.encode(_Key(self.effective_at, about="cluster"))


QuotaLogRecord: TypeAlias = QuotaRecord | ResetRecord | CallbackRecord | ClusterRecord


class QuotaLogEntry(msgspec.Struct, frozen=True):
    """A record of the quota log with its offset, and the timestamp that the broker gave it (epoch ms)."""

    offset: int
    timestamp: int
    record: QuotaLogRecord


class _Key(msgspec.Struct, frozen=True, omit_defaults=True):
    """The key of a record whose key is not the entity alone."""

    effective_at: EpochMs | None = None
    entity: QuotaEntity | None = None
    bucket: _Tags | None = None
    about: str | None = None


class _Kind(msgspec.Struct):
    """The fields that distinguish the four kinds of records: exactly one of them is not null.

    A null `callback` has a meaning if it is the only field: the callback of the settings.
    """

    entity: msgspec.Raw = msgspec.Raw()
    bucket: msgspec.Raw = msgspec.Raw()
    callback: msgspec.Raw = msgspec.Raw()
    cluster: msgspec.Raw = msgspec.Raw()


_ABSENT = (b"", b"null")

_kind_decoder = msgspec.json.Decoder(_Kind)
_entity_decoder = msgspec.json.Decoder(QuotaEntity)
_decoders: dict[str, msgspec.json.Decoder[QuotaLogRecord]] = {
    "entity": msgspec.json.Decoder(QuotaRecord),
    "bucket": msgspec.json.Decoder(ResetRecord),
    "callback": msgspec.json.Decoder(CallbackRecord),
    "cluster": msgspec.json.Decoder(ClusterRecord),
}


def read_quota_log_record(value: bytes | None, key: bytes | None = None) -> QuotaLogRecord:
    """Parse a record of the quota log; a tombstone (null value) removes the quota of the entity in its key."""
    if value is None and key is not None:
        return QuotaRecord(codec.decode(key, _entity_decoder), controller_mutation_rate=None)
    fields = codec.decode(value, _kind_decoder)
    kinds = [kind for kind in _decoders if bytes(getattr(fields, kind)) not in _ABSENT]
    if len(kinds) > 1:
        raise BadRecord(
            f"{kinds[1]}: a record must have only one of {', '.join(_decoders)}, but this one also has {kinds[0]}"
        )
    without = "callback" if fields.callback else "entity"
    return codec.decode(value, _decoders[kinds[0] if kinds else without])
