"""The quota log: what its records say, and the change that each makes."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, TypeAlias

import msgspec

from quota import codec
from quota.entity import QuotaEntity
from quota.errors import BadRecord
from quota.terms import Quota

SINCE_EVER = -(2**63)
"""The moment of a change that has always held."""

LATEST = 253_402_300_799_999
"""The last millisecond of the year 9999: later times are typing errors."""

RATE = "controller_mutation_rate"
FIELDS = {
    RATE: "rate",
    "controller_mutation_burst": "burst",
    "max_debt_ms": "max_debt_ms",
    "shadow": "shadow",
}
"""What a quota consists of: the names of its configs, and of the fields of `Quota`."""

EpochMs = Annotated[int, msgspec.Meta(ge=0, le=LATEST)]
Positive = Annotated[float, msgspec.Meta(gt=0)]
DebtMs = Annotated[int, msgspec.Meta(ge=1, le=2**31 - 1)]
TagName = Annotated[str, msgspec.Meta(min_length=1)]
BucketTags = Annotated[dict[TagName, TagName], msgspec.Meta(min_length=1)]


class QuotaRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """Sets the quota of an entity, or removes it; what is left out is as KIP-599 has it."""

    entity: QuotaEntity
    controller_mutation_rate: Positive | None
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
    effective_at: EpochMs | None = None
    altered_by: str | None = None
    comment: str | None = None

    @property
    def key(self) -> bytes:
        """The tags, always spelled the same; with the time of a reset that is for later."""
        return codec.encode(_Key(self.effective_at, bucket=dict(sorted(self.bucket.items()))))


LogRecord: TypeAlias = QuotaRecord | ResetRecord


@dataclass(frozen=True, slots=True)
class QuotaChange:
    """A quota in force from `moment` (epoch ms) on; None for no quota."""

    entity: QuotaEntity
    quota: Quota | None
    moment: int
    altered: tuple[str, ...] | None = None
    """What the change is about, by the names of the configs; None for the whole."""

    def on(self, before: Quota | None) -> Quota | None:
        """What it makes of the quota before it, which whoever wrote it may not have known."""
        if self.altered is None:
            return self.quota
        if before is None or self.quota is None:  # a change of an option does not bring back a quota that is gone
            return self.quota if RATE in self.altered else before
        fields = [FIELDS[name] for name in self.altered if name in FIELDS]
        return replace(before, **{field: getattr(self.quota, field) for field in fields})


@dataclass(frozen=True, slots=True)
class BucketReset:
    """Buckets with these tags are as if never seen, at `moment`."""

    tags: Mapping[str, str]
    moment: int


@dataclass(frozen=True, slots=True)
class Cancellation:
    """The change of an entity that would hold from `moment` on is taken back."""

    entity: QuotaEntity
    moment: int


Change: TypeAlias = QuotaChange | BucketReset | Cancellation


class _Key(msgspec.Struct, frozen=True, omit_defaults=True):
    """The key of a record that is not simply an entity."""

    effective_at: EpochMs | None = None
    entity: QuotaEntity | None = None
    bucket: BucketTags | None = None


class _Kind(msgspec.Struct):
    entity: msgspec.Raw = msgspec.Raw()
    bucket: msgspec.Raw = msgspec.Raw()


_kind_decoder = msgspec.json.Decoder(_Kind)
_quota_decoder = msgspec.json.Decoder(QuotaRecord)
_reset_decoder = msgspec.json.Decoder(ResetRecord)
_entity_decoder = msgspec.json.Decoder(QuotaEntity)


def read_log_record(value: bytes | None, key: bytes | None = None) -> LogRecord:
    """Read a record of the quota topic; a tombstone (null value) removes the quota of the entity in its key.

    Raises:
        BadRecord: with a sentence that names the field and the value.
    """
    if value is None and key is not None:
        return _tombstone(key)
    kind = codec.decode(value, _kind_decoder)
    if not kind.bucket:
        return codec.decode(value, _quota_decoder)
    if kind.entity:
        raise BadRecord("bucket: a record either sets a quota (entity) or resets buckets (bucket)")
    return codec.decode(value, _reset_decoder)


def change_of(record: LogRecord, timestamp: int) -> Change:
    """The change that a record makes: in force from the record's own timestamp on, or from a later `effective_at`."""
    if isinstance(record, QuotaRecord) and record.cancelled and record.effective_at is not None:
        if timestamp < record.effective_at:
            return Cancellation(record.entity, record.effective_at)
        # Too late: the change has held. It is repeated here, because compaction leaves this record alone.
        return QuotaChange(record.entity, record.quota, record.effective_at)
    moment = timestamp if record.effective_at is None else max(timestamp, record.effective_at)
    if isinstance(record, ResetRecord):
        return BucketReset(record.bucket, moment)
    altered = None if record.altered_configs is None else tuple(record.altered_configs)
    return QuotaChange(record.entity, record.quota, moment, altered)


def _tombstone(key: bytes) -> LogRecord:
    return QuotaRecord(codec.decode(key, _entity_decoder), controller_mutation_rate=None)
