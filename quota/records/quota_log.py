"""The quota log: its records, the quotas and callbacks that they set, and their reader."""

import math
import sys
from dataclasses import dataclass, field
from typing import Annotated, Any, Self, TypeAlias

import msgspec

from quota.errors import BadRecord
from quota.records import codec
from quota.records.entity import QuotaEntity
from quota.records.record import DebtMs, EpochMs, Name, Positive, TopicLimit
from quota.text import config_value

RATE_CONFIG, BURST_CONFIG = "controller_mutation_rate", "controller_mutation_burst"
LIMIT_CONFIG = "max_request_mutations"


class Quota(msgspec.Struct, frozen=True, omit_defaults=True, rename={"rate": RATE_CONFIG, "burst": BURST_CONFIG}):
    """A quota: a rate in partition mutations per second, and options that Kafka does not have."""

    rate: Positive
    burst: Positive | None = None
    """The mutations that may be made at once; None for KIP-599's Q * S * W."""
    max_debt_ms: DebtMs | None = None
    """The longest throttle time that one large mutation can cause: debt beyond it is forgiven. None for no limit."""
    shadow: bool = False
    """Whether the quota is evaluated and reported but not enforced: everything is admitted."""
    max_request_mutations: TopicLimit | None = None
    """The most mutations that one topic of a request may cost; a topic that costs more is rejected for good. None for
    no limit."""

    def __str__(self) -> str:
        """Return the quota in the notation of `--add-config`, without the configs that are not set."""
        given = ((name, value) for name, value in self.configs.items() if value is not None and value is not False)
        return ",".join(f"{name}={config_value(value)}" for name, value in given)

    @property
    def configs(self) -> dict[str, Any]:
        """The values of the configs, by their names."""
        return {name: getattr(self, field) for name, field in QUOTA_CONFIGS.items()}

    @property
    def bounds(self) -> tuple[float, float | None, int | None]:
        """The rate, burst and maximum debt: everything that changes the tokens of a bucket."""
        return self.rate, self.burst, self.max_debt_ms

    @property
    def topic_limit(self) -> float:
        """The most mutations that one topic of a request may cost; infinite without a limit."""
        return math.inf if self.max_request_mutations is None else self.max_request_mutations


QUOTA_CONFIGS = {field.encode_name: field.name for field in msgspec.structs.fields(Quota)}
"""The configs of a quota, and the field of `Quota` that holds each."""


@dataclass(frozen=True, slots=True)
class Window:
    """The window S * W of a quota, which determines its default burst.

    `num` is `controller.quota.window.num` (S, samples), `size_seconds` is `controller.quota.window.size.seconds` (W);
    the defaults are Kafka's.
    """

    num: int = 11
    size_seconds: int = 1

    @property
    def size_ms(self) -> int:
        """W in milliseconds."""
        return self.size_seconds * 1000

    @property
    def total_ms(self) -> int:
        """S * W in milliseconds."""
        return self.num * self.size_ms

    def burst(self, rate: float, own: float | None = None) -> float:
        """Return B in mutations: a quota's own burst, or Q * S * W, which is finite for every finite rate."""
        return own if own is not None else min(rate * self.num * self.size_seconds, sys.float_info.max)


DEFAULT_CLASS = "quota.callbacks.default.DefaultQuotaCallback"


class CallbackSetting(msgspec.Struct, frozen=True):
    """A class that implements `quota.callbacks.interface.ClientQuotaCallback`, and its configs."""

    class_name: str = msgspec.field(name="class")
    """The full name of the class; the settings must allow it."""
    configs: dict[str, str] = {}
    """The configs passed to `configure`."""

    @property
    def is_default(self) -> bool:
        """Whether this is the default callback: the eight levels, which need no instance."""
        return self.class_name == DEFAULT_CLASS


@dataclass(frozen=True, slots=True)
class Callbacks:
    """The callback settings. They are pickled for the workers, so they hold names and no classes."""

    class_name: str = DEFAULT_CLASS
    configs: tuple[tuple[str, str], ...] = ()
    more_classes: frozenset[str] = field(default_factory=frozenset)
    """The classes that records of the quota log may name, besides `class_name` and the default."""

    @property
    def setting(self) -> CallbackSetting:
        """The callback in force until a record of the quota log names another."""
        return CallbackSetting(self.class_name, dict(self.configs))

    @property
    def allowed(self) -> frozenset[str]:
        """All classes that may be loaded."""
        return self.more_classes | {self.class_name, DEFAULT_CLASS}

    @property
    def only_default(self) -> bool:
        """Whether the eight levels are the only callback that there can be."""
        return all(CallbackSetting(name).is_default for name in self.allowed)


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
    max_request_mutations: TopicLimit | None = None
    """most that one topic of a request may cost; null for no limit [mutations]"""
    effective_at: EpochMs | None = None
    """time from which the change takes effect, if it is later than the record [epoch ms]"""
    altered_by: str | None = None
    """author of the change"""
    comment: str | None = None
    """reason of the change"""
    altered_configs: list[str] | None = None
    """configs that change, if the others are copied from the previous quota; null if all are set"""
    cancelled: bool = False
    """Whether it cancels the scheduled change that it repeats; once that has taken effect, it does nothing."""

    @classmethod
    def of(cls, entity: QuotaEntity, quota: Quota | None) -> Self:
        """Return the record that sets a quota, or removes it where it is None."""
        return cls(entity, None) if quota is None else cls(entity, **quota.configs)

    @property
    def quota(self) -> Quota | None:
        """The quota that is set; None where it is removed."""
        configs = {field: getattr(self, name) for name, field in QUOTA_CONFIGS.items()}
        return None if self.controller_mutation_rate is None else Quota(**configs)

    @property
    def key(self) -> bytes:
        """The entity, and the time of a scheduled change: without it compaction would remove the quota in force.

        A cancellation has its own key: one that comes too late must not remove the change, which is in force.
        """
        if self.effective_at is None:
            return self.entity.key
        return codec.encode(_Key(self.effective_at, self.entity, cancelled=self.cancelled))


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
    """Whether it cancels the scheduled change that it repeats; once that has taken effect, it does nothing."""

    @property
    def key(self) -> bytes:
        """The same key for all records of this kind, with the time of a scheduled change, or of a cancelled one."""
        return codec.encode(_Key(self.effective_at, about="callback", cancelled=self.cancelled))


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
    cancelled: bool = False


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
