"""The records of the quota log."""

from typing import Annotated, Any, TypeAlias

import msgspec

from quota.errors import BadRecord
from quota.records import codec
from quota.records.callback import CallbackSetting
from quota.records.entity import QuotaEntity
from quota.records.fields import DebtMs, EpochMs, Positive
from quota.records.quota import Quota

_Name = Annotated[str, msgspec.Meta(min_length=1)]
_Broker = Annotated[int, msgspec.Meta(ge=0)]


class Cluster(msgspec.Struct, frozen=True):
    """Topics, and for each of their partitions the broker that leads it; None while no one does."""

    topics: dict[_Name, list[_Broker | None]]
    """By the topic's name, the leader's id for each partition."""

    @property
    def partitions(self) -> int:
        """The number of all partitions."""
        return sum(len(leaders) for leaders in self.topics.values())


RATE = "controller_mutation_rate"
FIELDS = {
    RATE: "rate",
    "controller_mutation_burst": "burst",
    "max_debt_ms": "max_debt_ms",
    "shadow": "shadow",
}
"""What a quota consists of: the names of its configs, and of the fields of `Quota`."""


def configs_of(quota: Quota) -> dict[str, Any]:
    """A quota by the names of its configs."""
    return {name: getattr(quota, field) for name, field in FIELDS.items()}


TagName = Annotated[str, msgspec.Meta(min_length=1)]
BucketTags = Annotated[dict[TagName, TagName], msgspec.Meta(min_length=1)]


class QuotaRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """Sets the quota of an entity, or removes it; what is left out is as KIP-599 has it."""

    entity: QuotaEntity
    """For whom."""
    controller_mutation_rate: Positive | None
    """The quota in mutations/s; None removes it."""
    controller_mutation_burst: Positive | None = None
    max_debt_ms: DebtMs | None = None
    shadow: bool = False
    effective_at: EpochMs | None = None
    altered_by: str | None = None
    comment: str | None = None
    altered_configs: list[str] | None = None
    """What of it is new, where the rest was copied from the quota before; None where it was set as a whole."""
    cancelled: bool = False
    """Takes the change back that this record repeats, if it comes before the moment of it."""

    @property
    def quota(self) -> Quota | None:
        """The quota that it sets; None where it removes one."""
        rate = self.controller_mutation_rate
        return None if rate is None else Quota(rate, self.controller_mutation_burst, self.max_debt_ms, self.shadow)

    @property
    def key(self) -> bytes:
        """The entity; with the time of a change that is for later, or compaction would drop the quota in force."""
        return self.entity.key if self.effective_at is None else codec.encode(_Key(self.effective_at, self.entity))


class ResetRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """Makes buckets as if never seen: those that have all these tags, `user` and `client-id` (KIP-257)."""

    bucket: BucketTags
    """Tags and their values."""
    effective_at: EpochMs | None = None
    altered_by: str | None = None
    comment: str | None = None

    @property
    def key(self) -> bytes:
        """The tags, always spelled the same; with the time of a reset that is for later."""
        return codec.encode(_Key(self.effective_at, bucket=dict(sorted(self.bucket.items()))))


class CallbackRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """Says by which callback requests are judged, and gives it its configs (KIP-257)."""

    callback: CallbackSetting | None
    """None for what the settings say."""
    effective_at: EpochMs | None = None
    altered_by: str | None = None
    comment: str | None = None
    altered_configs: list[str] | None = None
    """Which configs are new, where the rest was copied from the callback before; None where it was set as a whole."""
    cancelled: bool = False
    """Takes the change back that this record repeats, if it comes before the moment of it."""

    @property
    def key(self) -> bytes:
        """Always the same; with the time of a change that is for later."""
        return codec.encode(_Key(self.effective_at, about="callback"))


class ClusterRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the cluster consists of, for callbacks that take partitions into account (KIP-257)."""

    cluster: Cluster
    """All of it."""
    effective_at: EpochMs | None = None
    altered_by: str | None = None
    comment: str | None = None

    @property
    def key(self) -> bytes:
        """Always the same; with the time of a change that is for later."""
        return codec.encode(_Key(self.effective_at, about="cluster"))


LogRecord: TypeAlias = QuotaRecord | ResetRecord | CallbackRecord | ClusterRecord


class LogEntry(msgspec.Struct, frozen=True):
    """A record of the quota topic, and the time that the broker stamped it (epoch ms)."""

    offset: int
    timestamp: int
    record: LogRecord


class _Key(msgspec.Struct, frozen=True, omit_defaults=True):
    """The key of a record that is not simply an entity."""

    effective_at: EpochMs | None = None
    entity: QuotaEntity | None = None
    bucket: BucketTags | None = None
    about: str | None = None


class _Kind(msgspec.Struct):
    entity: msgspec.Raw = msgspec.Raw()
    bucket: msgspec.Raw = msgspec.Raw()
    callback: msgspec.Raw = msgspec.Raw()
    cluster: msgspec.Raw = msgspec.Raw()


_kind_decoder = msgspec.json.Decoder(_Kind)
_entity_decoder = msgspec.json.Decoder(QuotaEntity)
_decoders: dict[str, msgspec.json.Decoder[LogRecord]] = {
    "entity": msgspec.json.Decoder(QuotaRecord),
    "bucket": msgspec.json.Decoder(ResetRecord),
    "callback": msgspec.json.Decoder(CallbackRecord),
    "cluster": msgspec.json.Decoder(ClusterRecord),
}


def read_log_record(value: bytes | None, key: bytes | None = None) -> LogRecord:
    """Read a record of the quota topic; a tombstone (null value) removes the quota of the entity in its key.

    Raises:
        BadRecord: with a sentence that names the field and the value.
    """
    if value is None and key is not None:
        return _tombstone(key)
    found = codec.decode(value, _kind_decoder)
    kinds = [kind for kind in _decoders if getattr(found, kind)]
    if len(kinds) > 1:
        raise BadRecord(f"{kinds[1]}: a record has one of {', '.join(_decoders)}, this one has {kinds[0]} too")
    return codec.decode(value, _decoders[kinds[0] if kinds else "entity"])


def _tombstone(key: bytes) -> LogRecord:
    return QuotaRecord(codec.decode(key, _entity_decoder), controller_mutation_rate=None)
