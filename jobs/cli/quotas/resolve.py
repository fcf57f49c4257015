"""`mutation-quota quotas resolve`: shows the quota that applies to a client, and why."""

from collections.abc import Iterator, Sequence

from jobs.cli.options import At, Client, KafkaOptions, User, parse_time
from jobs.cli.output import OutputOptions, labelled, print_warnings
from jobs.cli.quotas.changes import read_log
from jobs.cli.tables import QUOTA, print_rows
from quota.admission.policy import Policy
from quota.admission.resolve import resolve_quota
from quota.callbacks.timeline import CallbackTimeline
from quota.errors import BadRecord, MutationQuotaError
from quota.planning.warnings import name_warning, quota_warnings
from quota.records.entity import QuotaEntity
from quota.records.levels import Resolution
from quota.records.levels import levels as entity_levels
from quota.records.quota_log import LIMIT_CONFIG, Window
from quota.records.request import ANONYMOUS, NO_CLIENT_ID
from quota.settings import Settings
from quota.text import describe_sharing, format_duration, format_rate, format_time, plural, quoted
from quota.timeline.change import QuotaChange
from quota.timeline.timeline import Level
from schemas.documents.quotas import ResolvedQuota


def resolve(
    user: User = None,
    client: Client = None,
    at: At = None,
    *,
    output: OutputOptions,
    kafka: KafkaOptions,
) -> None:
    """Show which quota applies to a client, and why.

    Shows the quota for a user and client-id, who shares its bucket, and the eight levels; the first level with a quota
    wins.

    Examples:
      mutation-quota quotas resolve --user alice --client app
      mutation-quota quotas resolve --user alice --at +2d -o json
    """
    user_name, client_id = user or ANONYMOUS, client or NO_CLIENT_ID
    requested_at = None if at is None else parse_time("--at", at)
    settings = kafka.read()
    log = read_log(settings)
    moment = log.now if requested_at is None else requested_at
    resolution = find_quota(settings, log.quotas, user_name, client_id, moment)
    print_warnings(_warnings(user, resolution, [change.entity for change in log.timeline.configured(moment)]))
    levels = [] if resolution.callback else log.timeline.levels(user_name, client_id, moment)
    shown = {resolution.entity, *(level for level, _ in entity_levels(user_name, client_id))}
    scheduled = [change for change in log.timeline.scheduled(moment) if change.entity in shown]
    document = resolved_quota(resolution, levels, settings.quota.window, moment, scheduled)

    def text() -> None:
        who = f"user {quoted(user_name)} with client-id {quoted(client_id)}"
        print(labelled("Client", f"{who}, at {format_time(moment)}"))
        print_resolved(document, settings.quota.window)
        for change in scheduled:
            print(labelled("Scheduled", f"{change.entity} {change}"))

    output.print(document, text)


def find_quota(settings: Settings, quotas: CallbackTimeline, user: str, client_id: str, at: int) -> Resolution:
    """Return the quota of a client at a time (epoch ms)."""
    try:
        return resolve_quota(user, client_id, at, quotas, Policy.of(settings))
    except BadRecord as error:
        raise MutationQuotaError(
            f"requests of user {quoted(user)} with client-id {quoted(client_id)} become dead letters: {error}"
        ) from None


def _warnings(user: str | None, resolution: Resolution, entities: Sequence[QuotaEntity]) -> list[str]:
    names = [f"--user {quoted(user)}: {warning}"] if user and (warning := name_warning(user)) else []
    of_quota = quota_warnings((), entities, of=[resolution.entity]) if resolution.entity else []
    return [*names, *of_quota]


def print_resolved(resolved: ResolvedQuota, window: Window) -> None:
    """Print the quota that applies, and a table of the levels, the most specific first."""
    for label, text in _facts(resolved, window):
        print(labelled(label, text))
    if resolved.levels and not resolved.exempt:
        print()
        columns = {"LEVEL": "level", **QUOTA, "SINCE": "since"}
        print_rows(resolved.levels, columns, optional=("SINCE", "MAX/TOPIC", "MAX DEBT", "BURST"))


def _facts(resolved: ResolvedQuota, window: Window) -> Iterator[tuple[str, str]]:
    quota = resolved.quota
    by = f", by {resolved.callback}" if resolved.callback else ""
    if resolved.exempt:
        yield "Quota", "unlimited: the user is exempt (quota.exempt_users)"
    elif quota is None:
        yield "Quota", f"unlimited{by or ': none of the eight levels has a quota'}"
    if quota is None:
        return
    whose = f", set for {resolved.entity}" if resolved.entity else ""
    since = "" if resolved.since is None else f" since {format_time(resolved.since)}"
    yield "Quota", f"{format_rate(quota.rate)}{whose}{by}{since}"
    own = "its own" if quota.burst is not None else format_default_burst(window)
    yield "Burst", f"{resolved.burst:.10g} mutations at once ({own})"
    if quota.max_debt_ms is not None:
        yield "Longest debt", f"{format_duration(quota.max_debt_ms)} (max_debt_ms)"
    if quota.max_request_mutations is not None:
        yield "Topic limit", f"{plural(quota.max_request_mutations, 'mutation')} ({LIMIT_CONFIG})"
    yield "Bucket", describe_sharing(resolved.bucket or {})
    if resolved.reset_at is not None:
        yield "Reset", format_time(resolved.reset_at)
    if resolved.shadow:
        yield "Shadow", "only reported: requests over the quota are admitted"


def format_default_burst(window: Window) -> str:
    """Return in words the burst of a quota without its own."""
    return f"{window.num} x {window.size_seconds} s of the rate"


def resolved_quota(
    resolution: Resolution, levels: Sequence[Level], window: Window, at: int, scheduled: Sequence[QuotaChange] = ()
) -> ResolvedQuota:
    """Return the quota that applies at a time (epoch ms), the levels, and their scheduled changes, as data."""
    quota = resolution.limit.quota if resolution.limit else None
    winner = next((level for level in levels if level.quota), None) if quota else None
    return ResolvedQuota(
        at=at,
        exempt=resolution.exempt,
        level=winner.level if winner else None,
        entity=resolution.entity,
        quota=quota,
        burst=window.burst(quota.rate, quota.burst) if quota else None,
        since=winner.since if winner else None,
        shadow=resolution.shadow,
        bucket=dict(resolution.tags.items()) if quota else None,
        reset_at=resolution.reset_at,
        callback=resolution.callback,
        levels=list(levels),
        scheduled=[change.record(change.moment) for change in scheduled],
    )
