"""All quotas at once: `mutation-quota quotas validate`, `apply`, `rollback` and `export`."""

import sys
from collections.abc import Sequence
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from jobs.cli.control.configs import shell_line
from jobs.cli.options import (
    At,
    BootstrapServer,
    Comment,
    ConfigFile,
    EffectiveAt,
    Json,
    Overrides,
    operator,
    print_json,
    settings_of,
    text_of,
)
from jobs.cli.times import now_ms, parse_future_time, parse_time
from quota.errors import BadInput
from quota.records.quota_log import QuotaRecord
from quota.settings.model import Settings
from quota.text import format_time
from quota.timeline.change import change_of
from quota.timeline.loopholes import loopholes
from quota.timeline.plan import Step, back_to, plan, set_to, signed
from quota.timeline.quota_file import read_quota_file, write_quota_file
from quota.timeline.timeline import QuotaTimeline


def signed_record(
    settings: Settings, effective_at: int | None, comment: str | None, record: QuotaRecord
) -> QuotaRecord:
    """A record with who writes it and why; it holds from `effective_at` on (epoch ms), or at once."""
    return signed(record, effective_at, operator(settings), text_of("comment", comment))


def prepare_quotas(settings: Settings) -> None:
    """See that the topic is there, and as it has to be.

    Raises:
        MutationQuotaError: it is not, or cannot be reached.
    """
    from quota.kafka.topics.specs import prepare_topics

    prepare_topics(settings, [settings.topics.quotas])


QuotaFile = Annotated[Path, typer.Argument(metavar="FILE", help="All quotas, in YAML; export writes such a file.")]


class Format(Enum):
    """What `export` writes."""

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
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the plan, and do nothing.")] = False,
    effective_at: EffectiveAt = None,
    comment: Comment = None,
    as_json: Json = False,
    overrides: Overrides = None,
    config: ConfigFile = None,
    server: BootstrapServer = None,
) -> None:
    """Make the quotas of a file the only ones: show the plan as a diff, then do it. A quota not in it is removed."""
    records = _read_file(file)
    settings = settings_of(context, overrides, config, server)
    from quota.kafka.quota_log import read_log

    if not dry_run:
        prepare_quotas(settings)
    moment = parse_future_time("--effective-at", effective_at)
    log = read_log(settings)
    steps = plan(records, log.timeline, log.now if moment is None else moment)
    _carry_out(settings, steps, moment, comment, dry_run=dry_run, as_json=as_json)


def rollback(
    context: typer.Context,
    to: Annotated[str, typer.Option(metavar="TIME", help="ISO 8601, epoch ms, or from now as in -2h.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the plan, and do nothing.")] = False,
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
    settings = settings_of(context, overrides, config, server)
    from quota.kafka.quota_log import read_log
    from quota.kafka.topics.specs import QUOTAS_KEPT_MS

    if past < now_ms() - QUOTAS_KEPT_MS:
        raise BadInput(
            f"--to {to}: the quota topic is compacted, and tells no more how quotas were so long ago; "
            "take them from the table quota_changes, and apply them as a file"
        )
    if not dry_run:
        prepare_quotas(settings)
    log = read_log(settings, keep=True)
    known = QuotaTimeline()
    for entry in log.entries:
        if entry.timestamp <= past:
            known.add(change_of(entry.record, entry.timestamp))
    steps = back_to(known, past, log.timeline, log.now)
    why = comment or f"rollback to {format_time(past)}"
    _carry_out(settings, steps, None, why, dry_run=dry_run, as_json=as_json)


def export(
    context: typer.Context,
    style: Annotated[Format, typer.Option("--format", help="YAML for apply, or commands for a broker.")] = Format.YAML,
    at: At = None,
    overrides: Overrides = None,
    config: ConfigFile = None,
    server: BootstrapServer = None,
) -> None:
    """Print all quotas: as the file that apply takes, or as the kafka-configs.sh lines that set the same."""
    given = None if at is None else parse_time("--at", at)
    settings = settings_of(context, overrides, config, server)
    from quota.kafka.quota_log import read_log

    log = read_log(settings)
    configured = log.timeline.configured(log.now if given is None else given)
    if style is Format.YAML:
        print(write_quota_file(set_to(each.entity, each.quota) for each in configured), end="")
        return
    for entity, quota in ((each.entity, each.quota) for each in configured if each.quota):
        print(shell_line(entity, quota, settings.kafka.bootstrap_servers))


def _read_file(file: Path) -> list[QuotaRecord]:
    try:
        return read_quota_file(file.read_bytes(), str(file))
    except OSError as error:
        raise BadInput(f"{file}: {error.strerror}") from None


def _carry_out(
    settings: Settings,
    steps: Sequence[Step],
    effective_at: int | None,
    comment: str | None,
    *,
    dry_run: bool,
    as_json: bool,
) -> None:
    from jobs.cli.control.quota_text import plan_json, plan_line
    from quota.kafka.quota_writer import write_records

    if not as_json:
        for step in steps:
            print(plan_line(step))
    if not dry_run and steps:
        write_records(settings, [signed_record(settings, effective_at, comment, step.record) for step in steps])
    if as_json:
        print_json({"applied": not dry_run, "changes": [plan_json(step) for step in steps]})
    else:
        done = "would be made" if dry_run else "made"
        print(f"{len(steps)} changes {done}." if steps else "Nothing to change.")
