"""Commands on all quotas at once: `mutation-quota quotas validate`, `apply`, `rollback` and `export`."""

import sys
from collections.abc import Sequence
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from jobs.cli.control.configs import kafka_configs_command
from jobs.cli.control.plans import DryRun, print_outcome, print_plan, write_steps
from jobs.cli.control.quota_log import prepare_quota_topic
from jobs.cli.options import (
    At,
    BootstrapServer,
    Comment,
    ConfigFile,
    EffectiveAt,
    Json,
    Overrides,
    read_settings,
)
from jobs.cli.times import parse_future_time, parse_time
from quota.errors import BadInput
from quota.kafka.timing import now_ms
from quota.records.quota_log import QuotaRecord
from quota.settings import Settings
from quota.text import format_time
from quota.timeline.change import to_change
from quota.timeline.loopholes import loopholes
from quota.timeline.plan import Step, plan, quota_record, rollback_plan
from quota.timeline.quota_file import read_quota_file, write_quota_file
from quota.timeline.timeline import QuotaTimeline

QuotaFile = Annotated[Path, typer.Argument(metavar="FILE", help="All quotas, in YAML; export writes such a file.")]


class Format(Enum):
    """The format that `export` prints."""

    YAML = "yaml"
    KAFKA_CONFIGS = "kafka-configs"


def validate(file: QuotaFile) -> None:
    """Check a file of quotas, and tell who could pass them by; no cluster is asked."""
    records = _read_file(file)
    for each in loopholes({record.entity for record in records}):
        print(f"warning: {each}", file=sys.stderr)
    print(f"{file}: {len(records)} quotas, valid")


def apply(
    context: typer.Context,
    file: QuotaFile,
    dry_run: DryRun = False,
    effective_at: EffectiveAt = None,
    comment: Comment = None,
    as_json: Json = False,
    overrides: Overrides = None,
    config: ConfigFile = None,
    server: BootstrapServer = None,
) -> None:
    """Make the quotas of a file the only ones: show the plan as a diff, then do it. A quota not in it is removed."""
    records = _read_file(file)
    settings = read_settings(context, overrides, config, server)
    from quota.kafka.quota_log import read_log

    if not dry_run:
        prepare_quota_topic(settings)
    moment = parse_future_time("--effective-at", effective_at)
    log = read_log(settings)
    steps = plan(records, log.timeline, log.now if moment is None else moment)
    _apply_plan(settings, steps, moment, comment, dry_run=dry_run, as_json=as_json)


def rollback(
    context: typer.Context,
    to: Annotated[str, typer.Option(metavar="TIME", help="ISO 8601, epoch ms, or from now as in -2h.")],
    dry_run: DryRun = False,
    comment: Comment = None,
    as_json: Json = False,
    overrides: Overrides = None,
    config: ConfigFile = None,
    server: BootstrapServer = None,
) -> None:
    """Set the quotas as they were at a time; changes that were scheduled since are taken back."""
    past = parse_time("--to", to)
    if past > now_ms():
        raise BadInput(f"--to {to}: that is not past yet")
    settings = read_settings(context, overrides, config, server)
    from quota.kafka.quota_log import read_log
    from quota.kafka.topics.specs import QUOTAS_RETAINED_MS

    if past < now_ms() - QUOTAS_RETAINED_MS:
        raise BadInput(
            f"--to {to}: the quota topic is compacted, and tells no more how quotas were so long ago; "
            "take them from the table quota_changes, and apply them as a file"
        )
    if not dry_run:
        prepare_quota_topic(settings)
    log = read_log(settings, with_entries=True)
    past_timeline = QuotaTimeline()
    for entry in log.entries:
        if entry.timestamp <= past:
            past_timeline.add(to_change(entry.record, entry.timestamp))
    steps = rollback_plan(past_timeline, past, log.timeline, log.now)
    reason = comment or f"rollback to {format_time(past)}"
    _apply_plan(settings, steps, None, reason, dry_run=dry_run, as_json=as_json)


def export(
    context: typer.Context,
    style: Annotated[Format, typer.Option("--format", help="YAML for apply, or commands for a broker.")] = Format.YAML,
    at: At = None,
    overrides: Overrides = None,
    config: ConfigFile = None,
    server: BootstrapServer = None,
) -> None:
    """Print all quotas: as the file that apply takes, or as the kafka-configs.sh lines that set the same."""
    moment = None if at is None else parse_time("--at", at)
    settings = read_settings(context, overrides, config, server)
    from quota.kafka.quota_log import read_log

    log = read_log(settings)
    configured = log.timeline.configured(log.now if moment is None else moment)
    if style is Format.YAML:
        print(write_quota_file(quota_record(each.entity, each.quota) for each in configured), end="")
        return
    for entity, quota in ((each.entity, each.quota) for each in configured if each.quota):
        print(kafka_configs_command(entity, quota, settings.kafka.bootstrap_servers))


def _read_file(file: Path) -> list[QuotaRecord]:
    try:
        return read_quota_file(file.read_bytes(), str(file))
    except OSError as error:
        raise BadInput(f"{file}: {error.strerror}") from None


def _apply_plan(
    settings: Settings,
    steps: Sequence[Step],
    effective_at: int | None,
    comment: str | None,
    *,
    dry_run: bool,
    as_json: bool,
) -> None:
    print_plan(steps, as_json=as_json)
    if not dry_run and steps:
        write_steps(settings, steps, effective_at, comment)
    print_outcome(steps, dry_run=dry_run, as_json=as_json)
