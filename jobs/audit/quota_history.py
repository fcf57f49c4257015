"""Describes the records of the quota log, for `quotas history`, `callback` and the dashboard."""

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from quota.callbacks.timeline import CallbackTimeline
from quota.records.entity import QuotaEntity, Tags
from quota.records.levels import levels
from quota.records.quota_log import QUOTA_CONFIGS, CallbackSetting, ClusterRecord, Quota, QuotaLogEntry
from quota.settings.secrets import mask_secrets
from quota.text import format_duration, format_tags, format_time, plural, printable
from quota.timeline.change import (
    BucketReset,
    CallbackCancellation,
    CallbackChange,
    Change,
    ClusterChange,
    QuotaCancellation,
    QuotaChange,
    ScheduledChange,
    to_change,
)
from quota.timeline.timeline import QuotaTimeline
from schemas.documents.quotas import HistoryEntry

_LABELS = dict(zip(QUOTA_CONFIGS.values(), ("rate", "burst", "max debt", "shadow", "limit per topic"), strict=True))


def to_history(entry: QuotaLogEntry, timeline: QuotaTimeline) -> HistoryEntry:
    """Return a record relative to the quotas before it, and add it to their timeline."""
    record, change = entry.record, to_change(entry.record, entry.timestamp)
    return HistoryEntry(
        offset=entry.offset,
        timestamp=entry.timestamp,
        effective_at=change.moment,
        altered_by=record.altered_by,
        comment=record.comment,
        **_add(change, timeline),
    )


def change_text(entry: HistoryEntry, if_later: str) -> str:
    """Return in words what changed, without its entity; `if_later` follows if it takes effect after it was written."""
    moment = format_time(entry.effective_at)
    later = if_later if entry.effective_at > entry.timestamp else ""
    match entry.kind:
        case "bucket_reset":
            return f"buckets with {format_tags(entry.bucket or {})} reset{later}"
        case "callback":
            return f"callback: {format_callback(entry.callback)}{later}"
        case "callback_cancel":
            return f"callback: change scheduled for {moment} cancelled"
        case "cluster":
            topics, partitions = entry.topic_count or 0, entry.partition_count or 0
            return f"cluster: {plural(topics, 'topic')}, {plural(partitions, 'partition')}{later}"
        case "cancel":
            return f"change scheduled for {moment} cancelled"
        case _:
            return f"{', '.join(_differences(entry.before, entry.after))}{later}"


class DescribedChange(msgspec.Struct, frozen=True):
    """A change of the quota log."""

    offset: int
    at: int
    """The time when it takes effect [epoch ms]."""
    what: str
    user: str | None
    """The only user that it concerns; None if it concerns more than one."""
    client_id: str | None
    altered_by: str = ""
    comment: str = ""


class ChangeDescriber:
    """Describes the changes of the quota log relative to the state before each."""

    def __init__(self) -> None:
        self._timeline = QuotaTimeline()

    def add(self, entry: QuotaLogEntry) -> DescribedChange | None:
        """Return the description of the log's next record; None for the cluster's metadata, which is not shown."""
        if isinstance(entry.record, ClusterRecord):
            return None
        change = to_history(entry, self._timeline)
        text = change_text(change, f" (set at {format_time(change.timestamp)})")
        names = change.entity.names if change.entity else change.bucket or {}
        return DescribedChange(
            change.offset,
            change.effective_at,
            f"{change.entity}: {text}" if change.entity else text,
            names.get("user"),
            names.get("client-id"),
            printable(change.altered_by or ""),
            printable(change.comment or ""),
        )


def quotas_in_force(quotas: QuotaTimeline, at: int) -> list[DescribedChange]:
    """Return the quotas in force at a time (epoch ms) as changes without an author, whose offsets are below 0."""
    return [
        DescribedChange(
            ~number,
            max(change.moment, 0),
            f"{change.entity}: in force, {', '.join(_differences(None, change.quota))}",
            change.entity.names.get("user"),
            change.entity.names.get("client-id"),
        )
        for number, change in enumerate(quotas.configured(at))
    ]


def scheduled_changes(quotas: CallbackTimeline, after: int) -> list[ScheduledChange]:
    """Return the changes that take effect later than `after` (epoch ms), in the order of their times."""
    timeline = quotas.timeline
    found = [ScheduledChange(each.moment, f"{each.entity} {each}", each.entity) for each in timeline.scheduled(after)]
    found += [ScheduledChange(each.moment, callback_text(each)) for each in quotas.settings.scheduled(after)]
    for reset in timeline.scheduled_resets(after):
        text = f"buckets with {format_tags(reset.tags)} are reset at {format_time(reset.moment)}"
        found.append(ScheduledChange(reset.moment, text, bucket=dict(reset.tags)))
    return sorted(found, key=lambda change: (change.effective_at, change.change))


def scheduled_for(
    scheduled: Iterable[ScheduledChange], user: str, client_id: str, entity: QuotaEntity | None, tags: Tags
) -> list[ScheduledChange]:
    """Return those of `scheduled_changes` that may concern a client with a quota of this entity and these tags."""
    concerned, bucket = {None, entity, *(level for level, _ in levels(user, client_id))}, dict(tags.items())
    return [each for each in scheduled if each.entity in concerned and (each.bucket or {}).items() <= bucket.items()]


def callback_text(change: CallbackChange) -> str:
    """Return what a scheduled change of the callback does."""
    return f"the callback is {format_callback(change.setting)} from {format_time(change.moment)} on"


def format_callback(setting: CallbackSetting | None) -> str:
    """Format a callback and its configs, with secrets masked; None is the callback in the settings."""
    if setting is None:
        return "that of the settings"
    configs = " ".join(f"{name}={mask_secrets(name, value)}" for name, value in sorted(setting.configs.items()))
    return printable(f"{setting.class_name} {configs}".rstrip())


def _add(change: Change, timeline: QuotaTimeline) -> dict[str, Any]:
    """Add a change to the timeline, and return what the history says of it."""
    match change:
        case QuotaChange(entity):
            before, after = timeline.add_quota(change)
            return {"kind": "quota", "entity": entity, "before": before, "after": after}
        case QuotaCancellation(entity):
            before, _ = timeline.add_quota(change)
            return {"kind": "cancel", "entity": entity, "before": before}
        case BucketReset(tags):
            return {"kind": "bucket_reset", "bucket": tags}
        case CallbackChange(setting):
            return {"kind": "callback", "callback": setting}
        case CallbackCancellation():
            return {"kind": "callback_cancel"}
        case ClusterChange(cluster):
            return {"kind": "cluster", "topic_count": len(cluster.topics), "partition_count": cluster.partitions}


def _differences(before: Quota | None, after: Quota | None) -> Iterator[str]:
    """Yield the values of a quota that have changed: all of them if the quota is new."""
    if after is None:
        yield "removed"
        return
    for name, label in _LABELS.items():
        old, new = getattr(before, name, None), getattr(after, name)
        if before is None and new not in (None, False):
            yield f"{label} {_value(name, new)}"
        elif before is not None and old != new:
            yield f"{label} {_value(name, old)} -> {_value(name, new)}"
    if before == after:
        yield "the same quota again"


def _value(name: str, value: float | None) -> str:
    if value is None:
        return "none"
    if name == "max_debt_ms":
        return format_duration(int(value))
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.10g}"
