"""Plans: the steps from the current quotas to the desired ones."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeAlias

from msgspec.structs import replace

from quota.errors import BadInput
from quota.records.entity import QuotaEntity
from quota.records.quota_log import RATE_CONFIG, Quota, QuotaRecord
from quota.text import format_time
from quota.timeline.change import QuotaChange, altered_together
from quota.timeline.timeline import QuotaTimeline


@dataclass(frozen=True, slots=True)
class Step:
    """One change of a plan: its record, and the quota before and after it."""

    record: QuotaRecord
    before: Quota | None
    after: Quota | None

    @property
    def sign(self) -> str:
        """The sign of the step in a diff: + for a new quota, - for a removed and ~ for a changed one."""
        if self.after is None:
            return "-"
        return "+" if self.before is None else "~"

    def __str__(self) -> str:
        """Return the step as a line of a diff."""
        values = [str(quota) for quota in (self.before, self.after) if quota]
        moment = self.record.effective_at
        cancelled = ", cancelled" if self.record.cancelled else ""
        later = "" if moment is None else f" (scheduled for {format_time(moment)}{cancelled})"
        return f"{self.sign} {self.record.entity}: {' -> '.join(values) or 'removed'}{later}"


Scope: TypeAlias = Callable[[QuotaEntity], bool]
"""Whether a plan may change the quota of an entity."""


def everything(_entity: QuotaEntity) -> bool:
    """Return true: the scope of a plan of all quotas."""
    return True


def plan(desired: Iterable[QuotaRecord], timeline: QuotaTimeline, at: int, scope: Scope = everything) -> list[Step]:
    """Return the steps that make the desired quotas and scheduled changes the only ones from `at` (epoch ms) on.

    Those of entities outside of the scope stay. A desired record with a time (`effective_at`), which must be after
    `at`, is a scheduled change. Quotas that are as desired take no step.
    """
    now, later = [], []
    for record in desired:
        moment = record.effective_at
        if moment is None:
            now.append(record)
        elif moment > at:
            later.append(QuotaChange(record.entity, record.quota, moment))
        else:
            raise BadInput(
                f"{record.entity}: effective_at {format_time(moment)} is not after {format_time(at)}, "
                "when the quotas take effect: use a later time, or remove effective_at"
            )
    present = {change.entity: change.quota for change in timeline.configured(at) if scope(change.entity)}
    records = {record.entity: record for record in now}
    removed = [QuotaRecord(entity, None) for entity in present if entity not in records]
    steps = [Step(record, present.get(record.entity), record.quota) for record in (*removed, *records.values())]
    changed = sorted((step for step in steps if step.before != step.after), key=lambda step: step.record.entity.key)
    return changed + _schedule(later, timeline, at, changed, scope)


def ending(record: QuotaRecord, until: int, timeline: QuotaTimeline, at: int) -> list[QuotaRecord]:
    """Return the records that end a change at `until`, where it takes effect at `at` (both epoch ms).

    Its configs have from then on what they would have without it. A scheduled change of them in between would end it
    early: it is cancelled, and what it sets is set at the end.
    """
    names = tuple(record.altered_configs or ())
    before, after = (timeline.latest(record.entity, moment) for moment in (at, until))
    altered = names if record.quota and before and before.quota else None
    cancelled = []
    for change in timeline.scheduled(at):
        alters = change.altered if change.quota else None
        same = RATE_CONFIG in names if change.quota is None else alters is None or {*names} & {*alters}
        if change.entity == record.entity and change.moment <= until and same:
            altered = altered_together(altered, alters)
            cancelled += [change.record(change.moment, cancelled=True)] if change.moment < until else []
    held = after.quota if after else None
    if held is None and before and RATE_CONFIG not in (altered or (RATE_CONFIG,)):
        held = before.quota  # an option does not restore a removed quota, and ends, too, if the removal is cancelled
    end = QuotaChange(record.entity, held, until, altered).record(until)
    return [replace(each, altered_by=record.altered_by, comment=record.comment) for each in (*cancelled, end)]


def rollback_plan(
    past: QuotaTimeline, then: int, timeline: QuotaTimeline, at: int, scope: Scope = everything
) -> list[Step]:
    """Return the steps that restore at `at` the quotas and scheduled changes of the time `then` (both epoch ms)."""
    desired = [QuotaRecord.of(each.entity, each.quota) for each in past.configured(then) if scope(each.entity)]
    unscheduled = [step for step in plan(desired, timeline, at, scope) if step.record.effective_at is None]
    scheduled = (change for change in past.scheduled(at) if scope(change.entity))
    return unscheduled + _schedule(scheduled, timeline, at, unscheduled, scope)


def _schedule(
    desired: Iterable[QuotaChange], timeline: QuotaTimeline, at: int, unscheduled: Iterable[Step], scope: Scope
) -> list[Step]:
    """Return the steps that make these changes the only ones scheduled for later than `at` (epoch ms).

    A scheduled change of a part stays where the whole is desired that results from it, unless something before it
    changes, now or at a scheduled time.
    """
    present = {(change.entity, change.moment): change for change in timeline.scheduled(at) if scope(change.entity)}
    wanted = {(change.entity, change.moment): change for change in desired}
    before, after = ({key: change.quota for key, change in changes.items()} for changes in (present, wanted))
    moved = {step.record.entity for step in unscheduled} | {entity for (entity, _), _ in before.items() ^ after.items()}

    def stays(change: QuotaChange, held: QuotaChange) -> bool:
        same = change.altered == held.altered or (change.altered is None and change.entity not in moved)
        return same and change.applied_to(held.quota) == held.quota

    cancelled = [
        Step(change.record(change.moment, cancelled=True), change.quota, None)
        for key, change in present.items()
        if key not in wanted
    ]
    scheduled = [
        Step(change.record(change.moment), None, change.quota)
        for key, change in wanted.items()
        if key not in present or not stays(change, present[key])
    ]
    return cancelled + scheduled
