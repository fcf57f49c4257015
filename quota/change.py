"""A change of a quota: a record of the quota log."""

from dataclasses import dataclass
from typing import Annotated

import msgspec

from quota import codec
from quota.entity import QuotaEntity

SINCE_EVER = -(2**63)
"""The moment of a change that has always held."""

LATEST = 253_402_300_799_999
"""The last millisecond of the year 9999: later times are typing errors."""

EpochMs = Annotated[int, msgspec.Meta(ge=0, le=LATEST)]
Rate = Annotated[float, msgspec.Meta(gt=0)]


class QuotaRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """The value of a record of the quota topic; its key is the entity."""

    entity: QuotaEntity
    controller_mutation_rate: Rate | None
    effective_at: EpochMs | None = None
    altered_by: str | None = None
    comment: str | None = None


@dataclass(frozen=True, slots=True)
class QuotaChange:
    """A change in force from `moment` (epoch ms) on: a rate in mutations per second, or None for no quota."""

    entity: QuotaEntity
    rate: float | None
    moment: int


_record_decoder = msgspec.json.Decoder(QuotaRecord)
_entity_decoder = msgspec.json.Decoder(QuotaEntity)


def read_quota_record(value: bytes | None, key: bytes | None = None) -> QuotaRecord:
    """Read a record of the quota topic; a tombstone (null value) removes the quota of the entity in its key.

    Raises:
        BadRecord: with a sentence that names the field and the value.
    """
    if value is None and key is not None:
        return QuotaRecord(codec.decode(key, _entity_decoder), controller_mutation_rate=None)
    return codec.decode(value, _record_decoder)


def change_of(record: QuotaRecord, timestamp: int) -> QuotaChange:
    """The change that a record makes: in force from the record's own timestamp on, or from a later `effective_at`."""
    moment = timestamp if record.effective_at is None else max(timestamp, record.effective_at)
    return QuotaChange(record.entity, record.controller_mutation_rate, moment)
