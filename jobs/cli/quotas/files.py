"""Commands on all quotas at once: `mutation-quota quotas validate`, `apply`, `rollback` and `export`."""

import re
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
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
from jobs.cli.quotas.kafka_configs import Part, kafka_configs_command
from jobs.storage.whole_file import read_whole
from quota.callbacks.timeline import CallbackTimeline
from quota.errors import BadInput
from quota.kafka.timing import now_ms
from quota.planning.plan import Scope, everything, plan, rollback_plan
from quota.planning.quota_file import read_quota_file, write_quota_file
from quota.planning.warnings import quota_warnings, rate_warnings
from quota.records.entity import QuotaEntity
from quota.records.quota_log import QuotaRecord
from quota.text import format_time, plural
from schemas.documents.quotas import ValidatedQuotas

QuotaFile = Annotated[
    Path,
    typer.Argument(metavar="FILE", help="File with all quotas, as quotas export and describe print them; - for stdin."),
]


_ONLY = re.compile(r"\s*(users|clients)\s*[:=]\s*(.*\S)\s*", re.DOTALL)

Only = Annotated[
    list[str] | None,
    typer.Option(
        metavar="'users: GLOB'",
        help="Leave all other quotas alone: only those of users whose names match, as in 'users: team-a-*', or of "
        "client-ids, as in 'clients: etl-?'. 'users: <default>' is the default. Repeatable.",
    ),
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
    warnings = print_warnings(quota_warnings(_entities(records), _entities(in_force)) + rate_warnings(records))
    changes = f" and {plural(scheduled, 'scheduled change')}" if scheduled else ""
    output.print(
        ValidatedQuotas(str(file), len(in_force), scheduled, warnings),
        lambda: print(f"{file}: {plural(len(in_force), 'quota')}{changes}, valid"),
    )
    if warnings and fail_on_warning:
        raise typer.Exit(BadInput.exit_code)


def apply(
    file: QuotaFile,
    only: Only = None,
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
    quotas describe as YAML, JSON or JSON lines is such a file. With --only, several teams have a file each.

    Examples:
      mutation-quota quotas apply quotas.yaml --dry-run
      mutation-quota quotas apply team-a.yaml --only 'users: team-a-*' --yes
    """
    scope = _parse_only(only)
    records = read_quota_file(read_whole(file), str(file))
    if outside := next((record.entity for record in records if not scope(record.entity)), None):
        raise BadInput(f"{file}: {outside} is not among --only {', '.join(only or ())}")
    moment = parse_effective_at(effective_at)
    confirmation.check(output)
    settings = kafka.read()
    if not confirmation.dry_run:
        prepare_quota_topic(settings)
    log = read_log(settings)
    entities = _entities(record for record in records if record.effective_at is None)
    at = log.now if moment is None else moment
    others = [change.entity for change in log.timeline.configured(at) if not scope(change.entity)]
    print_warnings(quota_warnings(_entities(records), entities + others, of=entities) + rate_warnings(records))
    steps = plan(records, log.timeline, at, scope)
    change_log(settings, log, steps, moment, comment, confirmation=confirmation, output=output)


def rollback(
    at: Annotated[str, time_option("--at", help=f"Point in time: {A_TIME}, -2h.")],
    only: Only = None,
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
    scope, past = _parse_only(only), parse_time("--at", at)
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
    past_timeline = CallbackTimeline.of(entry for entry in log.entries if entry.timestamp <= past).timeline
    steps = rollback_plan(past_timeline, past, log.timeline, log.now, scope)
    reason = comment or f"rollback to {format_time(past)}"
    change_log(settings, log, steps, None, reason, confirmation=confirmation, output=output)


def export(
    style: Annotated[
        Format, typer.Option("--format", help="YAML for quotas apply, or commands for kafka-configs.sh.")
    ] = "yaml",
    at: At = None,
    only: Only = None,
    *,
    file: FileOptions,
    output: OutputOptions,
    kafka: KafkaOptions,
) -> None:
    """Write all quotas to a file.

    The file is YAML for quotas apply. With --format kafka-configs it is a list of kafka-configs.sh commands, which set
    the same quotas on a broker. quotas describe prints the quotas as data.

    Examples:
      mutation-quota quotas export --output-file quotas.yaml
      mutation-quota quotas export --format kafka-configs --at -1d
    """
    scope, moment = _parse_only(only), None if at is None else parse_time("--at", at)
    file.check(output)
    settings = kafka.read()
    log = read_log(settings)
    as_of = log.now if moment is None else moment
    configured, scheduled = (
        [change for change in changes if scope(change.entity)]
        for changes in (log.timeline.configured(as_of), log.timeline.scheduled(as_of))
    )
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


def _parse_only(texts: list[str] | None) -> Scope:
    if texts is None:
        return everything
    matches = [_ONLY.fullmatch(text) for text in texts]
    for text, match in zip(texts, matches, strict=True):
        if match is None:
            raise BadInput(f"--only {text!r}: expected 'users: GLOB' or 'clients: GLOB', such as 'users: team-a-*'")
    globs = [(match[1], match[2]) for match in matches if match]

    def is_matched(part: Part, glob: str) -> bool:
        return fnmatchcase(part, glob) if isinstance(part, str) else part is None and glob == "<default>"

    return lambda entity: any(
        is_matched(entity.user if kind == "users" else entity.client_id, glob) for kind, glob in globs
    )


def _entities(records: Iterable[QuotaRecord]) -> list[QuotaEntity]:
    return list(dict.fromkeys(record.entity for record in records))
