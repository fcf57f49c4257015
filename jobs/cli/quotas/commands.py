"""Commands on single quotas: `mutation-quota quotas alter`, `cancel`, `describe` and `history`."""

import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated

import msgspec
import typer

from jobs.audit.quota_history import change_text, to_history
from jobs.cli.options import (
    Comment,
    EffectiveAt,
    KafkaOptions,
    PeriodOptions,
    ScheduledAt,
    parse_duration,
    parse_effective_at,
    parse_time,
    split_configs,
)
from jobs.cli.output import OutputOptions, print_text, print_warnings
from jobs.cli.quotas.changes import cancel_scheduled, prepare_quota_topic, read_log, sign, warn_of_scheduled
from jobs.cli.quotas.kafka_configs import ConfigChange, EntityFilterOptions, EntityOptions
from jobs.cli.quotas.resolve import format_default_burst
from jobs.cli.tables import QUOTA, Columns, print_rows
from quota.errors import BadInput
from quota.planning.quota_file import DescribedQuota, QuotaFile
from quota.planning.warnings import quota_warnings, rate_warning
from quota.records.entity import QuotaEntity
from quota.records.quota_log import RATE_CONFIG, Quota, QuotaLogEntry, QuotaLogRecord, QuotaRecord, ResetRecord, Window
from quota.records.record import MAX_EPOCH_MS
from quota.text import display_name, format_time, plural
from quota.timeline.change import QuotaChange
from quota.timeline.timeline import QuotaTimeline
from schemas.documents.quotas import CancelledChange, HistoryEntry, PlannedChange, QuotaChanges, QuotaHistory

_QUOTA: Columns = {
    **QUOTA,
    "RATE/S": lambda entry: entry.quota.rate if entry.quota else "removed",
    "SHADOW": lambda entry: "yes" if entry.quota and entry.quota.shadow else None,
}
_HISTORY: Columns = {
    "TIME": "timestamp",
    "BY": "altered_by",
    "USER / CLIENT-ID": lambda entry: entry.entity and _names(entry.entity),
    "CHANGE": lambda entry: change_text(entry, f", from {format_time(entry.effective_at)} on"),
    "COMMENT": "comment",
}


def alter(
    whose: EntityOptions,
    add_config: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE,...",
            help=f"Configs to set: {RATE_CONFIG} (mutations/s), controller_mutation_burst (mutations), max_debt_ms, "
            "shadow (true or false), max_request_mutations (the most that one topic may cost). Repeatable.",
        ),
    ] = None,
    delete_config: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME,...",
            help=f"Configs to remove; {RATE_CONFIG} removes the whole quota. Repeatable.",
        ),
    ] = None,
    effective_at: EffectiveAt = None,
    lasting: Annotated[
        str | None,
        typer.Option("--for", metavar="DURATION", help="How long the change lasts, such as 1h. Default: for good."),
    ] = None,
    comment: Comment = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Set even a rate that is probably a typo.")] = False,
    *,
    output: OutputOptions,
    kafka: KafkaOptions,
) -> None:
    """Set, change or remove a quota.

    The quota belongs to a user, a client-id, or both together; defaults are quotas for all others.
    The change takes effect immediately, or at --effective-at, without a restart. With --for it ends by itself: then
    the quota is what it would be without the change.

    Examples:
      mutation-quota quotas alter --user a --add-config controller_mutation_rate=5
      mutation-quota quotas alter --user a --add-config controller_mutation_rate=50 --for 1h
      mutation-quota quotas alter --user a --delete-config max_debt_ms
    """
    entity = whose.parse()
    change = ConfigChange.parse(split_configs(add_config), split_configs(delete_config))
    rate = change.added.get(RATE_CONFIG)
    if not yes and rate is not None and (doubt := rate_warning(rate)):
        raise BadInput(f"{RATE_CONFIG}: {doubt}; add --yes if it is meant")
    settings = kafka.read()
    moment = parse_effective_at(effective_at)
    duration = None if lasting is None else parse_duration("--for", lasting)
    from quota.kafka.quotas.writer import QuotaWriter

    prepare_quota_topic(settings)

    def make_record(present: Quota | None) -> QuotaRecord:
        record = sign(QuotaRecord.of(entity, change.applied_to(present)), comment, moment)
        return msgspec.structs.replace(record, altered_configs=change.names)

    writer = QuotaWriter(settings)
    until = None if duration is None else (moment or writer.read().now) + duration
    if until is not None and until > MAX_EPOCH_MS:
        raise BadInput(f"--for {lasting}: it would end after the year 9999")
    altered = writer.alter_quotas({entity: make_record}, moment, until)[entity]
    after, since = altered.record.quota, altered.since
    log = writer.read()
    if after is not None:
        entities = {configured.entity for configured in log.timeline.configured(since)}
        print_warnings(quota_warnings([entity], entities, of=[entity]))
    made = {since, *(record.effective_at for record in altered.ending)}
    scheduled = log.timeline.scheduled(log.now)
    warn_of_scheduled(each for each in scheduled if each.entity == entity and each.moment not in made)
    done, word = ("Unchanged", "since") if altered.before == after and not altered.ending else ("Updated", "from")
    quota = f"{after or 'removed'} {word} {format_time(since)}"
    changes = [PlannedChange(entity, altered.before, after, since)]
    for record in altered.ending:
        time = format_time(record.effective_at or 0)
        if record.cancelled:
            print_warnings([f"{entity}: the change scheduled for {time} is cancelled, and made when this one ends"])
            changes.append(PlannedChange(entity, record.quota, None, record.effective_at, cancelled=True))
        else:
            held = log.timeline.quota(entity, record.effective_at or 0)
            quota += f", then {held or 'removed'} from {time}"
            changes.append(PlannedChange(entity, after, held, record.effective_at))
    servers = settings.kafka.bootstrap_servers
    output.print(
        QuotaChanges(True, changes),
        lambda: print_text(f"{done} config for entity: {entity}: {quota}, on {servers}."),
        items="changes",
    )


def cancel(
    whose: EntityOptions,
    effective_at: ScheduledAt = None,
    comment: Comment = None,
    *,
    output: OutputOptions,
    kafka: KafkaOptions,
) -> None:
    """Cancel a scheduled quota change.

    If the entity has several, --effective-at names one. quotas describe lists them and their times.

    Examples:
      mutation-quota quotas cancel --user alice
      mutation-quota quotas cancel --user-defaults --effective-at 2027-01-01
    """
    entity = whose.parse()
    given = None if effective_at is None else parse_time("--effective-at", effective_at)
    settings = kafka.read()
    log = read_log(settings)
    scheduled = [change for change in log.timeline.scheduled(log.now) if change.entity == entity]
    moment = cancel_scheduled(settings, scheduled, given, comment, entity)
    output.print(
        CancelledChange(entity, moment),
        lambda: print_text(f"Cancelled for entity: {entity}: the change scheduled for {format_time(moment)}."),
    )


def describe(whose: EntityFilterOptions, *, output: OutputOptions, kafka: KafkaOptions) -> None:
    """List quotas.

    Lists the quotas in force and the scheduled changes: all of them, or those that match the options (KIP-546).

    Examples:
      mutation-quota quotas describe
      mutation-quota quotas describe --user alice --strict -o yaml
    """
    matches = whose.parse_filter()
    settings = kafka.read()
    log = read_log(settings)
    configured = [change for change in log.timeline.configured(log.now) if matches is None or matches(change.entity)]
    scheduled = [change for change in log.timeline.scheduled(log.now) if matches is None or matches(change.entity)]

    in_force = [_entry(change, since=change.moment) for change in configured]
    later = [_entry(change, effective_at=change.moment) for change in scheduled]

    def table() -> None:
        if not configured:
            print("No quota is in force." if matches is None else "No matching quota is in force.")
        print_quotas(in_force, later, settings.quota.window)

    output.print_found(
        QuotaFile([*in_force, *later]),
        table,
        items="quotas",
        none="no quotas are set" if matches is None else "no quota matches",
        selected=matches is not None,
    )


def print_quotas(in_force: Sequence[DescribedQuota], scheduled: Sequence[DescribedQuota], window: Window) -> None:
    """Print a table of the quotas in force, and one of the scheduled changes."""
    optional = ("SHADOW", "MAX/TOPIC", "MAX DEBT", "BURST")
    if in_force:
        print_rows(in_force, {**_QUOTA, "SINCE": "since"}, optional=("SINCE", *optional))
    if scheduled:
        print("Scheduled changes:")
        print_rows(scheduled, {**_QUOTA, "FROM": "effective_at"}, optional=("FROM", *optional))
    if any(entry.quota and entry.quota.burst is None for entry in (*in_force, *scheduled)):
        print(f"Without a BURST: the default, {format_default_burst(window)}; without a MAX DEBT: no bound")


def _entry(change: QuotaChange, *, since: int | None = None, effective_at: int | None = None) -> DescribedQuota:
    configs = change.quota.configs if change.quota else {RATE_CONFIG: None}
    return DescribedQuota(change.entity, **configs, since=since, effective_at=effective_at)


def history(
    whose: EntityOptions,
    period: PeriodOptions,
    limit: Annotated[int, typer.Option(min=1, metavar="N", help="Print at most the N latest.")] = 1000,
    *,
    output: OutputOptions,
    kafka: KafkaOptions,
) -> None:
    """Show who changed what, when and why.

    Reads the quota topic, which retains all changes for a week, and the last one of each entity forever. The Delta
    table quota_changes retains all changes. --from and --to refer to the time at which a change was written.

    Examples:
      mutation-quota quotas history --from -1d
      mutation-quota quotas history --user alice -o jsonl
    """
    entity = whose.parse_optional()
    start, end = period.parse()
    settings = kafka.read()
    log = read_log(settings, with_entries=True)
    entries = [
        entry
        for entry in history_entries(log.entries, entity)
        if entry.timestamp >= (start or 0) and (end is None or entry.timestamp < end)
    ]
    changes = entries[-limit:]
    left_out = len(entries) - len(changes)
    selected = entity is not None or period != PeriodOptions()
    none = "no such changes" if selected else "no changes"
    document = QuotaHistory(changes, left_out)
    output.print_found(
        document,
        lambda: print_rows(changes, _HISTORY, optional=("COMMENT", "BY")),
        items="changes",
        none=none,
        selected=selected,
    )
    if left_out:
        print(f"and {plural(left_out, 'earlier change')} (--limit)", file=sys.stderr)


def history_entries(entries: Iterable[QuotaLogEntry], entity: QuotaEntity | None) -> Iterator[HistoryEntry]:
    """Yield the changes of an entity, or all changes."""
    timeline = QuotaTimeline()
    for entry in entries:
        change = to_history(entry, timeline)
        if entity is None or _concerns(entry.record, entity):
            yield change


def _names(entity: QuotaEntity) -> str:
    return " / ".join(display_name(name) or "-" for name in (entity.user, entity.client_id))


def _concerns(record: QuotaLogRecord, entity: QuotaEntity) -> bool:
    match record:
        case QuotaRecord():
            return record.entity == entity
        case ResetRecord(bucket):
            return bucket.items() <= entity.names.items()
        case _:
            return False
