"""Commands on all quotas at once: `mutation-quota quotas validate`, `apply`, `rollback` and `export`."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Literal

import typer

from jobs.cli.options import (
    A_TIME,
    At,
    Comment,
    ConfirmOptions,
    EffectiveAt,
    FileOptions,
    KafkaOptions,
    SettingsOptions,
    parse_effective_at,
    parse_time,
    time_option,
)
from jobs.cli.output import OutputOptions, print_warnings
from jobs.cli.quotas.changes import change_log, prepare_quota_topic, read_log
from jobs.cli.quotas.kafka_configs import kafka_configs_command
from jobs.storage.whole_file import read_whole
from quota.errors import BadInput
from quota.kafka.timing import now_ms
from quota.planning.plan import plan, rollback_plan
from quota.planning.quota_file import read_quota_file, write_quota_file
from quota.planning.warnings import quota_warnings, rate_warnings
from quota.records.entity import QuotaEntity
from quota.records.quota_log import QuotaRecord
from quota.text import format_time, plural
from quota.timeline.change import to_change
from quota.timeline.timeline import QuotaTimeline
from schemas.documents.quotas import ValidatedQuotas

QuotaFile = Annotated[
    Path,
    typer.Argument(metavar="FILE", help="File with all quotas, as quotas export and describe print them; - for stdin."),
]


Format = Literal["yaml", "kafka-configs"]
"""The format that `export` prints."""


def validate(
    file: QuotaFile,
    fail_on_warning: Annotated[
        bool, typer.Option("--fail-on-warning", help="Exit with code 2 if there is a warning.")
    ] = False,
    *,
    output: OutputOptions,
    where: SettingsOptions,
) -> None:
    """Check a quota file offline.

    Also warns about names that are probably misspelled, and about clients that could evade the quotas. Does not
    connect to a cluster.

    Examples:
      mutation-quota quotas validate quotas.yaml
      mutation-quota quotas validate quotas.yaml --fail-on-warning
    """
    where.read()  # for the level of the log
    records = read_quota_file(read_whole(file), str(file))
    in_force = [record for record in records if record.effective_at is None]
    scheduled = len(records) - len(in_force)
    warnings = print_warnings(quota_warnings(_entities(records), _entities(in_force)) + _rate_warnings(records))
    changes = f" and {plural(scheduled, 'scheduled change')}" if scheduled else ""
    output.print(
        ValidatedQuotas(str(file), len(in_force), scheduled, warnings),
        lambda: print(f"{file}: {plural(len(in_force), 'quota')}{changes}, valid"),
    )
    if warnings and fail_on_warning:
        raise typer.Exit(BadInput.exit_code)


def apply(
    file: QuotaFile,
    effective_at: EffectiveAt = None,
    comment: Comment = None,
    *,
    confirmation: ConfirmOptions,
    output: OutputOptions,
    kafka: KafkaOptions,
) -> None:
    """Replace all quotas with those of a file.

    Shows the changes as a diff and asks for confirmation: + for a quota to add, ~ for one to change and - for one to
    remove. Removes the quotas that are not in the file, and cancels scheduled changes that are not in it. The output of
    quotas describe as YAML, JSON or JSON lines is such a file.

    Examples:
      mutation-quota quotas apply quotas.yaml --dry-run
      mutation-quota quotas apply quotas.yaml --yes --comment 'after the review'
    """
    records = read_quota_file(read_whole(file), str(file))
    moment = parse_effective_at(effective_at)
    confirmation.check(output)
    settings = kafka.read()
    if not confirmation.dry_run:
        prepare_quota_topic(settings)
    log = read_log(settings)
    entities = _entities(record for record in records if record.effective_at is None)
    print_warnings(quota_warnings(_entities(records), entities, of=entities) + _rate_warnings(records))
    steps = plan(records, log.timeline, log.now if moment is None else moment)
    change_log(settings, log, steps, moment, comment, confirmation=confirmation, output=output)


def rollback(
    at: Annotated[str, time_option("--at", help=f"Point in time: {A_TIME}, -2h.")],
    comment: Comment = None,
    remove_all: Annotated[
        bool, typer.Option("--remove-all", help="Remove all quotas if the quota log begins later than --at.")
    ] = False,
    *,
    confirmation: ConfirmOptions,
    output: OutputOptions,
    kafka: KafkaOptions,
) -> None:
    """Restore the quotas of a point in time.

    Shows the changes as a diff and asks for confirmation. Changes that were scheduled since then are cancelled. Before
    the first change there were no quotas; restoring that needs --remove-all.

    Examples:
      mutation-quota quotas rollback --at -1h --dry-run
      mutation-quota quotas rollback --at 2026-11-21T14:00 --yes
    """
    past = parse_time("--at", at)
    if past > now_ms():
        raise BadInput(f"--at {at}: this time is in the future")
    confirmation.check(output)
    settings = kafka.read()
    from quota.kafka.topics.specs import QUOTAS_RETAINED_MS

    if past < now_ms() - QUOTAS_RETAINED_MS:
        raise BadInput(
            f"--at {at}: this is beyond the quota topic's 7-day history (it is compacted); "
            "take the quotas from the table quota_changes, and apply them as a file"
        )
    if not confirmation.dry_run:
        prepare_quota_topic(settings)
    log = read_log(settings, with_entries=True)
    begins_at = min((entry.timestamp for entry in log.entries), default=past)
    if past < begins_at and not remove_all:
        raise BadInput(
            f"--at {at}: the quota log begins at {format_time(begins_at)}, before which there were no quotas; give a "
            "later time, or --remove-all to remove all quotas"
        )
    past_timeline = QuotaTimeline()
    for entry in log.entries:
        if entry.timestamp <= past:
            past_timeline.add(to_change(entry.record, entry.timestamp))
    steps = rollback_plan(past_timeline, past, log.timeline, log.now)
    reason = comment or f"rollback to {format_time(past)}"
    change_log(settings, log, steps, None, reason, confirmation=confirmation, output=output)


def export(
    style: Annotated[
        Format, typer.Option("--format", help="YAML for quotas apply, or commands for kafka-configs.sh.")
    ] = "yaml",
    at: At = None,
    *,
    file: FileOptions,
    output: OutputOptions,
    kafka: KafkaOptions,
) -> None:
    """Write all quotas to a file.

    The file is YAML for quotas apply. With --format kafka-configs it is a list of kafka-configs.sh commands, which set
    the same quotas on a broker. --output is the format of the summary that is printed if --output-file names a file;
    quotas describe prints the quotas as data.

    Examples:
      mutation-quota quotas export --output-file quotas.yaml
      mutation-quota quotas export --format kafka-configs --at -1d
    """
    moment = None if at is None else parse_time("--at", at)
    file.check(output)
    settings = kafka.read()
    log = read_log(settings)
    as_of = log.now if moment is None else moment
    configured, scheduled = log.timeline.configured(as_of), log.timeline.scheduled(as_of)
    if scheduled:
        left_out = f"{plural(len(scheduled), 'scheduled change')} left out"
        print_warnings([f"{left_out}, and cancelled by quotas apply with such a file; quotas describe -o yaml has all"])

    def commands() -> Iterator[str]:
        for entity, quota in ((change.entity, change.quota) for change in configured if change.quota):
            yield kafka_configs_command(entity, quota, settings.kafka) + "\n"

    if style == "yaml":
        file.write(write_quota_file(QuotaRecord.of(change.entity, change.quota) for change in configured))
    else:
        file.write("".join(commands()))
    file.print_written(output, plural(len(configured), "quota"), quota_count=len(configured))


def _entities(records: Iterable[QuotaRecord]) -> list[QuotaEntity]:
    return list(dict.fromkeys(record.entity for record in records))


def _rate_warnings(records: Iterable[QuotaRecord]) -> list[str]:
    return rate_warnings((record.entity, record.controller_mutation_rate) for record in records)
