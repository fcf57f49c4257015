"""From the quotas that are set to those that are wanted: the records that do it, each with what it changes."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import msgspec

from quota.change import CancelRecord, QuotaRecord
from quota.entity import QuotaEntity
from quota.terms import Quota
from quota.timeline import QuotaTimeline


@dataclass(frozen=True, slots=True)
class Step:
    """One change of a plan: for whom, from what, to what."""

    record: QuotaRecord | CancelRecord
    before: Quota | None
    after: Quota | None

    @property
    def sign(self) -> str:
        """As a diff writes it: + - or ~ for set, removed and changed."""
        if self.before is None:
            return "+"
        return "-" if self.after is None else "~"


def plan(wanted: Iterable[QuotaRecord], timeline: QuotaTimeline, at: int) -> list[Step]:
    """What makes the wanted quotas the only ones, as of `at` (epoch ms); what is so already is left alone."""
    present = {change.entity: change.quota for change in timeline.configured(at)}
    records = {record.entity: record for record in wanted}
    removed = [QuotaRecord(entity, None) for entity in present if entity not in records]
    steps = [Step(each, present.get(each.entity), each.quota) for each in (*removed, *records.values())]
    return sorted((step for step in steps if step.before != step.after), key=lambda step: step.record.entity.key)


def back_to(past: int, timeline: QuotaTimeline, made: Mapping[tuple[QuotaEntity, int], int], at: int) -> list[Step]:
    """What makes the quotas of a moment in the past hold again.

    Args:
        past: that moment, epoch ms.
        timeline: all changes.
        made: when each scheduled change was written, by its entity and the moment it holds from.
        at: from when on the past shall hold, epoch ms. Changes that were scheduled after `past` are taken back.
    """
    wanted = [set_to(change.entity, change.quota) for change in timeline.configured(past)]
    cancelled = [
        Step(CancelRecord(change.entity, change.moment), change.quota, None)
        for change in timeline.scheduled(at)
        if made.get((change.entity, change.moment), past) > past
    ]
    return [*plan(wanted, timeline, at), *cancelled]


def set_to(entity: QuotaEntity, quota: Quota | None) -> QuotaRecord:
    """The record that sets or removes a quota."""
    if quota is None:
        return QuotaRecord(entity, None)
    return QuotaRecord(entity, quota.rate, quota.burst, quota.max_debt_ms, quota.shadow)


def signed(record: QuotaRecord, effective_at: int | None, altered_by: str | None, comment: str | None) -> QuotaRecord:
    """A record with who changes it, why, and from when on."""
    why = record.comment if comment is None else comment
    return msgspec.structs.replace(record, effective_at=effective_at, altered_by=altered_by, comment=why)


def merged(records: Sequence[QuotaRecord]) -> Quota | None:
    """The quota that all changes of an entity come to, each taken as what it meant to change, in their order.

    It differs from the last record where that one was written without knowing of the one before it.
    """
    quota = records[0].quota  # what compaction has left of the ones before
    for record in records[1:]:
        names, whole = record.altered_configs, record.quota
        if names is None:
            quota = whole
        elif quota is None or whole is None:  # one who changes an option of a quota that is gone does not set it again
            quota = whole if _RATE in names else quota
        else:
            quota = replace(
                quota, **{_FIELDS[name]: getattr(whole, _FIELDS[name]) for name in names if name in _FIELDS}
            )
    return quota


_RATE = "controller_mutation_rate"
_FIELDS = {
    _RATE: "rate",
    "controller_mutation_burst": "burst",
    "max_debt_ms": "max_debt_ms",
    "shadow": "shadow",
}
