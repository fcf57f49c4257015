"""Quotas, plans and callbacks as data and as text."""

from collections.abc import Iterable, Iterator, Sequence

from jobs.cli.control.configs import format_quota
from jobs.cli.output import print_table
from quota.records.callback import CallbackSetting
from quota.records.quota import Quota, Window
from quota.records.quota_log import to_configs
from quota.text import describe_sharing, display_name, format_time, printable
from quota.timeline.change import QuotaChange
from quota.timeline.plan import Step
from quota.timeline.resolution import Resolution
from quota.timeline.timeline import Level
from schemas.documents.quotas import ListedQuota, PlannedChange, QuotaConfigs, QuotaLevel, ResolvedQuota

_COLUMNS = ("USER", "CLIENT-ID", "RATE/S", "BURST", "DEBT MS", "SHADOW")
_NUMBERS = ("RATE/S", "BURST", "DEBT MS")


def quota_configs(quota: Quota | None) -> QuotaConfigs | None:
    """Return a quota as data; None for none."""
    return None if quota is None else QuotaConfigs(**to_configs(quota))


def listed_quotas(configured: Iterable[QuotaChange], scheduled: Iterable[QuotaChange]) -> list[ListedQuota]:
    """Return the quotas in force, and after them the scheduled changes."""
    return [
        *(_listed(each, since=each.moment) for each in configured),
        *(_listed(each, effective_at=each.moment) for each in scheduled),
    ]


def print_quotas(configured: Sequence[QuotaChange], scheduled: Sequence[QuotaChange]) -> None:
    """Print a table of the quotas in force, and one of the scheduled changes."""
    if configured:
        print_table((*_COLUMNS, "SINCE"), map(_row, configured), numbers=_NUMBERS)
    if scheduled:
        print("Scheduled changes:")
        print_table((*_COLUMNS, "FROM"), map(_row, scheduled), numbers=_NUMBERS)


def _listed(change: QuotaChange, *, since: int | None = None, effective_at: int | None = None) -> ListedQuota:
    quota = change.quota
    return ListedQuota(
        entity=change.entity,
        controller_mutation_rate=quota.rate if quota else None,
        controller_mutation_burst=quota.burst if quota else None,
        max_debt_ms=quota.max_debt_ms if quota else None,
        shadow=quota.shadow if quota else False,
        since=since,
        effective_at=effective_at,
    )


def _row(change: QuotaChange) -> list[str]:
    parts = [display_name(each) or "-" for each in (change.entity.user, change.entity.client_id)]
    quota = change.quota
    if quota is None:
        return [*parts, "removed", "-", "-", "-", format_time(change.moment)]
    limits = [
        f"{quota.rate:.10g}",
        *("-" if each is None else f"{each:.10g}" for each in (quota.burst, quota.max_debt_ms)),
    ]
    return [*parts, *limits, "yes" if quota.shadow else "no", format_time(change.moment)]


def planned_change(step: Step) -> PlannedChange:
    """Return a step of a plan as data."""
    return PlannedChange(
        step.record.entity, quota_configs(step.before), quota_configs(step.after), step.record.effective_at
    )


def resolved_quota(resolution: Resolution, levels: Sequence[Level], window: Window, at: int) -> ResolvedQuota:
    """Return the quota that applies at a time (epoch ms), and the levels that were tried, as data."""
    quota = resolution.limit.quota if resolution.limit else None
    winner = next((level for level in levels if level.change), None) if quota else None
    return ResolvedQuota(
        at=at,
        exempt=resolution.exempt,
        level=levels.index(winner) + 1 if winner else None,
        entity=resolution.entity,
        quota=quota_configs(quota),
        burst=window.burst(quota.rate, quota.burst) if quota else None,
        since=winner.change.moment if winner and winner.change else None,
        shadow=resolution.shadow,
        bucket=dict(resolution.tags.items()) if quota else None,
        reset_at=resolution.reset_at,
        callback=resolution.callback,
        levels=[
            QuotaLevel(number, each.entity, quota_configs(each.change.quota if each.change else None))
            for number, each in enumerate(levels, start=1)
        ],
    )


def resolve_lines(resolution: Resolution, levels: Sequence[Level], window: Window, at: int) -> Iterator[str]:
    """Yield the quota that applies at a time (epoch ms), and the levels that were tried, as lines."""
    if resolution.exempt:
        yield "Unlimited: the user is exempt (quota.exempt_users)."
        return
    quota = resolution.limit.quota if resolution.limit else None
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
            yield "  shadow  only reported: requests over the quota are admitted"
    if resolution.callback:
        return
    yield "  levels, most specific first:"
    winner = next((level for level in levels if level.change), None)
    for number, level in enumerate(levels, start=1):
        change = level.change
        configured = f"{format_quota(change.quota)} since {format_time(change.moment)}" if change else "-"
        yield f"  {'*' if level is winner else ' '} {number}  {level.entity!s:50}  {configured}"


def format_callback(setting: CallbackSetting | None) -> str:
    """Format a callback and its configs; None is the callback in the settings."""
    if setting is None:
        return "the one in the settings"
    configs = " ".join(f"{name}={value}" for name, value in sorted(setting.configs.items()))
    return printable(f"{setting.class_name} {configs}".rstrip())
