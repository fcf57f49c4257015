"""What the commands of `quotas` print: as JSON for programs, and as lines for people."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from jobs.cli.control.configs import format_quota
from quota.algorithms.bucket import Window
from quota.records.callback import CallbackSetting
from quota.records.entity import QuotaEntity
from quota.records.quota import Quota
from quota.records.quota_log import (
    CallbackRecord,
    ClusterRecord,
    LogEntry,
    LogRecord,
    QuotaRecord,
    ResetRecord,
    configs_of,
)
from quota.text import describe_sharing, format_configs, format_tags, format_time, printable
from quota.timeline.change import CallbackCancellation, Change, QuotaChange, change_of
from quota.timeline.plan import Step
from quota.timeline.resolution import Resolution
from quota.timeline.timeline import Level, QuotaTimeline


def configs(quota: Quota | None) -> dict[str, Any] | None:
    """A quota as JSON shows it."""
    return None if quota is None else configs_of(quota)


def describe_lines(changes: Iterable[QuotaChange], scheduled: Iterable[QuotaChange]) -> Iterator[str]:
    """The quotas that are set, and those that are for later."""
    for each in changes:
        yield f"Quota configs for {each.entity} are {format_quota(each.quota)} (since {format_time(each.moment)})"
    for each in scheduled:
        yield f"Scheduled for {each.entity}: {format_quota(each.quota)} (from {format_time(each.moment)} on)"


def plan_line(step: Step) -> str:
    """One step of a plan, as a diff writes it."""
    values = [format_quota(each) for each in (step.before, step.after) if each is not None]
    later = f" (scheduled for {format_time(step.record.effective_at)})" if step.record.effective_at is not None else ""
    return f"{step.sign} {step.record.entity}: {' -> '.join(values)}{later}"


def plan_json(step: Step) -> dict[str, Any]:
    """One step of a plan, for programs."""
    found: dict[str, Any] = {"entity": step.record.entity, "before": configs(step.before), "after": configs(step.after)}
    if step.record.effective_at is not None:
        found["scheduled_for"] = step.record.effective_at
    return found


def resolve_json(resolution: Resolution, levels: Sequence[Level], window: Window, at: int) -> dict[str, Any]:
    """The quota that would apply, and why."""
    quota = resolution.limit.quota if resolution.limit else None
    winner = next((level for level in levels if level.change), None) if quota else None
    since = winner.change.moment if winner and winner.change else None
    return {
        "at": at,
        "exempt": resolution.exempt,
        "level": levels.index(winner) + 1 if winner else None,
        "entity": resolution.entity,
        "quota": configs(quota),
        "burst": window.burst(quota.rate, quota.burst) if quota else None,
        "since": since,
        "shadow": resolution.shadow,
        "bucket": dict(resolution.tags.items()) if quota else None,
        "reset_at": resolution.reset_at,
        "callback": resolution.callback,
        "levels": [
            {"level": number, "entity": each.entity, "quota": configs(each.change.quota if each.change else None)}
            for number, each in enumerate(levels, start=1)
        ],
    }


def resolve_lines(resolution: Resolution, levels: Sequence[Level], window: Window, at: int) -> Iterator[str]:
    """The quota that would apply, and why, for people."""
    quota = resolution.limit.quota if resolution.limit else None
    if resolution.exempt:
        yield "Unlimited: the user is exempt (quota.exempt_users)."
        return
    by = f", by {resolution.callback}" if resolution.callback else ""
    if quota is None:
        why = by or ": none of the eight levels has a quota"
        yield f"Unlimited{why} as of {format_time(at)}."
    else:
        whose = f", set for {resolution.entity}" if resolution.entity else ""
        yield f"{format_quota(quota)}{whose}{by}"
        own = "its own" if quota.burst is not None else f"{window.num} x {window.size_seconds} s of the rate"
        yield f"  burst   {window.burst(quota.rate, quota.burst)} mutations at once ({own})"
        yield f"  bucket  {describe_sharing(dict(resolution.tags.items()))}"
        if resolution.reset_at is not None:
            yield f"  reset   {format_time(resolution.reset_at)}"
        if resolution.shadow:
            yield "  shadow  decided and reported, but admitted"
    if resolution.callback:
        return
    yield "  levels tried, the most specific first:"
    winner = next((level for level in levels if level.change), None)
    for number, level in enumerate(levels, start=1):
        found = f"{format_quota(level.change.quota)} since {format_time(level.change.moment)}" if level.change else "-"
        yield f"  {'*' if level is winner else ' '} {number}  {level.entity!s:50}  {found}"


def history(entries: Iterable[LogEntry], entity: QuotaEntity | None) -> Iterator[dict[str, Any]]:
    """All changes of the log, or those of an entity: who, when, from what to what, and why."""
    timeline = QuotaTimeline()
    for entry in entries:
        record, change = entry.record, change_of(entry.record, entry.timestamp)
        row = {"offset": entry.offset, "timestamp": entry.timestamp, "effective_at": change.moment}
        if entity is None or _concerns(record, entity):
            who = {"altered_by": record.altered_by, "comment": record.comment}
            yield row | _what(record, change, timeline) | who
        timeline.add(change)


def _concerns(record: LogRecord, entity: QuotaEntity) -> bool:
    match record:
        case QuotaRecord():
            return record.entity == entity
        case ResetRecord(bucket):
            return bucket.items() <= _named(entity).items()
        case _:
            return False


def _what(record: LogRecord, change: Change, timeline: QuotaTimeline) -> dict[str, Any]:
    match record:
        case ResetRecord(bucket):
            return {"kind": "bucket_reset", "bucket": bucket}
        case CallbackRecord(setting):
            taken_back = isinstance(change, CallbackCancellation)
            return {"kind": "callback_cancel" if taken_back else "callback", "callback": setting}
        case ClusterRecord(cluster):
            return {"kind": "cluster", "topics": len(cluster.topics), "partitions": cluster.partitions}
        case QuotaRecord(entity):
            before = timeline.latest(entity, change.moment)
            found = {"kind": "quota", "entity": entity, "before": configs(before.quota if before else None)}
            if isinstance(change, QuotaChange):
                return found | {"after": configs(change.on(before))}
            return found | {"kind": "cancel"}


def callback_text(setting: CallbackSetting | None) -> str:
    """A callback and its configs, for people."""
    if setting is None:
        return "that of the settings"
    configs = " ".join(f"{name}={value}" for name, value in sorted(setting.configs.items()))
    return printable(f"{setting.class_name} {configs}".rstrip())


def history_line(row: dict[str, Any]) -> str:
    """One change, for people."""
    who = f" by {printable(row['altered_by'])}" if row["altered_by"] else ""
    later = f", from {format_time(row['effective_at'])} on" if row["effective_at"] > row["timestamp"] else ""
    why = f"  # {printable(row['comment'])}" if row["comment"] else ""
    match row["kind"]:
        case "bucket_reset":
            what = f"buckets with {format_tags(row['bucket'])} reset"
        case "callback":
            what = f"callback: {callback_text(row['callback'])}"
        case "callback_cancel":
            what, later = f"callback: the change for {format_time(row['effective_at'])} taken back", ""
        case "cluster":
            what = f"cluster: {row['topics']} topics, {row['partitions']} partitions"
        case "cancel":
            what, later = f"{row['entity']}: the change for {format_time(row['effective_at'])} taken back", ""
        case _:
            what = f"{row['entity']}: {format_configs(row['before'])} -> {format_configs(row['after'])}"
    return f"{format_time(row['timestamp'])}{who}  {what}{later}{why}"


def _named(entity: QuotaEntity) -> dict[str, str]:
    return {
        tag: name for tag, name in (("user", entity.user), ("client-id", entity.client_id)) if isinstance(name, str)
    }
