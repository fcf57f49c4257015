"""From the quotas that are set to those that are wanted: the records that do it, each with what it changes."""

from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from quota.records.entity import QuotaEntity
from quota.records.quota import Quota
from quota.records.quota_log import QuotaRecord
from quota.timeline.change import QuotaChange
from quota.timeline.timeline import QuotaTimeline


@dataclass(frozen=True, slots=True)
class Step:
    """One change of a plan: for whom, from what, to what."""

    record: QuotaRecord
    before: Quota | None
    after: Quota | None

    @property
    def sign(self) -> str:
        """As a diff writes it: + - or ~ for set, removed and changed."""
        if self.before is None:
            return "+"
        return "-" if self.after is None else "~"


def plan(wanted: Iterable[QuotaRecord], timeline: QuotaTimeline, at: int) -> list[Step]:
    """What makes the wanted quotas the only ones from `at` (epoch ms) on; what is so already is left alone."""
    present = {change.entity: change.quota for change in timeline.configured(at)}
    records = {record.entity: record for record in wanted}
    removed = [QuotaRecord(entity, None) for entity in present if entity not in records]
    steps = [Step(each, present.get(each.entity), each.quota) for each in (*removed, *records.values())]
    changed = sorted((step for step in steps if step.before != step.after), key=lambda step: step.record.entity.key)
    return changed + _schedule([], timeline, at)


def back_to(past: QuotaTimeline, then: int, timeline: QuotaTimeline, at: int) -> list[Step]:
    """What makes the quotas of a moment in the past hold again, and those that were scheduled then.

    Args:
        past: the changes that were known then.
        then: that moment, epoch ms.
        timeline: all changes.
        at: from when on the past shall hold, epoch ms.
    """
    wanted = [set_to(change.entity, change.quota) for change in past.configured(then)]
    now = [step for step in plan(wanted, timeline, at) if step.record.effective_at is None]
    return now + _schedule(past.scheduled(at), timeline, at)


def cancelling(change: QuotaChange) -> QuotaRecord:
    """The record that takes a scheduled change back."""
    return msgspec.structs.replace(set_to(change.entity, change.quota), effective_at=change.moment, cancelled=True)


def _schedule(wanted: Iterable[QuotaChange], timeline: QuotaTimeline, at: int) -> list[Step]:
    """What makes these changes the only ones that are scheduled for later than `at`."""
    present = {(change.entity, change.moment): change for change in timeline.scheduled(at)}
    later = {(change.entity, change.moment): change for change in wanted}
    taken_back = [
        Step(cancelling(change), change.quota, None) for place, change in present.items() if place not in later
    ]
    put_back = [
        Step(
            msgspec.structs.replace(set_to(change.entity, change.quota), effective_at=change.moment), None, change.quota
        )
        for place, change in later.items()
        if place not in present or present[place].quota != change.quota
    ]
    return taken_back + put_back


def set_to(entity: QuotaEntity, quota: Quota | None) -> QuotaRecord:
    """The record that sets or removes a quota."""
    if quota is None:
        return QuotaRecord(entity, None)
    return QuotaRecord(entity, quota.rate, quota.burst, quota.max_debt_ms, quota.shadow)


def signed(record: QuotaRecord, effective_at: int | None, altered_by: str | None, comment: str | None) -> QuotaRecord:
    """A record with who changes it, why, and from when on, where it does not say that itself."""
    why = record.comment if comment is None else comment
    when = effective_at if record.effective_at is None else record.effective_at
    return msgspec.structs.replace(record, effective_at=when, altered_by=altered_by, comment=why)
