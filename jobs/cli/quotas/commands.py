"""Commands on single quotas: `mutation-quota quotas`, with the option names of kafka-configs.sh."""

from typing import Annotated

import msgspec
import typer

from jobs.cli.options import Comment, EffectiveAt, KafkaOptions, ScheduledAt, split_configs
from jobs.cli.output import OutputOptions, print_text, print_warnings
from jobs.cli.quotas.configs import ConfigChange
from jobs.cli.quotas.entities import EntityFilterOptions, EntityOptions
from jobs.cli.quotas.log import prepare_quota_topic, sign
from jobs.cli.times import parse_effective_at, parse_time
from quota.errors import BadInput, NotFound
from quota.planning.warnings import quota_warnings, rate_warning
from quota.records.quota_log import RATE_CONFIG, Quota, QuotaRecord
from quota.text import format_time
from quota.timeline.change import quota_record
from schemas.documents.quotas import CancelledChange, PlannedChange, QuotaChanges


def alter(
    whose: EntityOptions,
    add_config: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE,...",
            help=f"Configs to set: {RATE_CONFIG} (mutations/s), controller_mutation_burst, max_debt_ms, shadow "
            "(true or false). Repeatable.",
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
    comment: Comment = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Set even a rate that is probably a slip.")] = False,
    *,
    output: OutputOptions,
    kafka: KafkaOptions,
) -> None:
    """Set, change or remove a quota.

    The quota belongs to a user, a client-id, or both together; defaults are quotas for all others.
    The change takes effect immediately, or at --effective-at, without a restart.

    Examples:
      mutation-quota quotas alter --user a --add-config controller_mutation_rate=5
      mutation-quota quotas alter --user a --delete-config max_debt_ms
    """
    entity = whose.parse()
    change = ConfigChange.parse(split_configs(add_config), split_configs(delete_config))
    rate = change.added.get(RATE_CONFIG)
    if not yes and rate is not None and (doubt := rate_warning(rate)):
        raise BadInput(f"{RATE_CONFIG}: {doubt}; add --yes if it is meant")
    settings = kafka.read()
    moment = parse_effective_at(effective_at)
    from quota.kafka.quotas.log import read_log
    from quota.kafka.quotas.writer import QuotaWriter, alter_quotas

    prepare_quota_topic(settings)
    before: Quota | None = None

    def make_record(present: Quota | None) -> QuotaRecord:
        nonlocal before
        before = present
        record = sign(quota_record(entity, change.applied_to(present)), settings, comment, moment)
        return msgspec.structs.replace(record, altered_configs=change.names)

    log = read_log(settings, with_entries=True)
    record, since = alter_quotas(QuotaWriter(settings), log, {entity: make_record}, moment)[entity]
    if record.quota is not None:
        entities = {configured.entity for configured in log.timeline.configured(since)}
        print_warnings(quota_warnings([entity], entities, of=[entity]))
    quota = "removed" if record.quota is None else str(record.quota)
    changed = PlannedChange(entity, before, record.quota, since)
    done, word = ("Unchanged", "since") if before == record.quota else ("Updated", "from")
    servers = settings.kafka.bootstrap_servers
    output.print(
        QuotaChanges(True, [changed]),
        lambda: print_text(f"{done} config for entity: {entity}: {quota} {word} {format_time(since)}, on {servers}."),
        items="changes",
    )


def cancel(
    whose: EntityOptions,
    effective_at: ScheduledAt,
    comment: Comment = None,
    *,
    output: OutputOptions,
    kafka: KafkaOptions,
) -> None:
    """Cancel a scheduled quota change.

    quotas describe lists the scheduled changes and their times.

    Examples:
      mutation-quota quotas cancel --user alice --effective-at 2027-01-01
      mutation-quota quotas cancel --user-defaults --effective-at 1798761600000
    """
    entity = whose.parse()
    moment = parse_time("--effective-at", effective_at)
    settings = kafka.read()
    from quota.kafka.quotas.log import read_log
    from quota.kafka.quotas.writer import write_records

    log = read_log(settings)
    scheduled = [
        change for change in log.timeline.scheduled(log.now) if (change.entity, change.moment) == (entity, moment)
    ]
    if not scheduled:
        times = [format_time(change.moment) for change in log.timeline.scheduled(log.now) if change.entity == entity]
        others = f"only for {', '.join(times)}" if times else "and none for another time"
        raise NotFound(f"{entity} has no change scheduled for {format_time(moment)}, {others}")
    (timestamp,) = write_records(settings, [sign(scheduled[0].record(moment, cancelled=True), settings, comment)])
    if timestamp >= moment:
        raise BadInput(f"too late: the change of {entity} at {format_time(moment)} has taken effect already")
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
    from jobs.cli.quotas.text import print_quotas, quota_file
    from quota.kafka.quotas.log import read_log

    log = read_log(settings)
    configured = [change for change in log.timeline.configured(log.now) if matches is None or matches(change.entity)]
    scheduled = [change for change in log.timeline.scheduled(log.now) if matches is None or matches(change.entity)]

    def table() -> None:
        if not configured:
            print("No quota is in force." if matches is None else "No matching quota is in force.")
        print_quotas(configured, scheduled, settings.quota.window)

    output.print_found(
        quota_file(configured, scheduled),
        table,
        items="quotas",
        none="no quotas are set" if matches is None else "no quota matches",
        selected=matches is not None,
    )
