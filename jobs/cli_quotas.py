"""`mutation-quota quotas`: in the option names of kafka-configs.sh."""

import sys
from collections.abc import Sequence
from enum import Enum
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from jobs.cli_configs import ConfigChange, shell_line, written
from jobs.cli_entities import (
    LONG_FORM,
    AnyClient,
    AnyUser,
    Client,
    ClientDefaults,
    EntityCommand,
    User,
    UserDefaults,
    entity_of,
)
from jobs.cli_filter import EntityFilter
from jobs.moments import later_moment, moment_of, now_ms, shown
from jobs.options import (
    BootstrapServer,
    Comment,
    ConfigFile,
    EffectiveAt,
    Json,
    Overrides,
    command_group,
    operator,
    settings_of,
    text_of,
)
from quota.change import change_of
from quota.entity import quoted
from quota.errors import BadInput, BadRecord, MutationQuotaError
from quota.log_record import RATE, QuotaRecord
from quota.loopholes import loopholes
from quota.plan import Step, back_to, cancelling, plan, set_to, signed
from quota.quota_file import read_quota_file, write_quota_file
from quota.request import ANONYMOUS, NO_CLIENT_ID
from quota.resolution import judged_by
from quota.settings import Settings
from quota.terms import Quota
from quota.timeline import QuotaTimeline

app = command_group("Set quotas, and see which are set.")

QuotaFile = Annotated[Path, typer.Argument(metavar="FILE", help="All quotas, in YAML; export writes such a file.")]
At = Annotated[str | None, typer.Option(metavar="TIME", help="As of then: ISO 8601, epoch ms, -2h. Now by default.")]


class Format(Enum):
    """What `export` writes."""

    YAML = "yaml"
    KAFKA_CONFIGS = "kafka-configs"


@app.command(cls=EntityCommand, epilog=LONG_FORM)
def alter(
    context: typer.Context,
    user: User = None,
    user_defaults: UserDefaults = False,
    client: Client = None,
    client_defaults: ClientDefaults = False,
    add_config: Annotated[
        str | None,
        typer.Option(
            metavar="NAME=VALUE,...",
            help=f"{RATE} (mutations/s), controller_mutation_burst, max_debt_ms, shadow (true or false).",
        ),
    ] = None,
    delete_config: Annotated[
        str | None, typer.Option(metavar="NAME,...", help=f"Remove options; {RATE} removes the whole quota.")
    ] = None,
    effective_at: EffectiveAt = None,
    comment: Comment = None,
    overrides: Overrides = None,
    config: ConfigFile = None,
    server: BootstrapServer = None,
) -> None:
    """Set, change or remove the quota of an entity; it holds for requests from now on."""
    entity = entity_of(user, user_defaults, client, client_defaults)
    change = ConfigChange.of(add_config, delete_config)
    settings = settings_of(context, overrides, config, server)
    moment = later_moment("--effective-at", effective_at)
    from quota.kafka.quota_store import alter_quota

    _prepare(settings)

    def altered(quota: Quota | None) -> QuotaRecord:
        record = _signed(settings, moment, comment, set_to(entity, change.on(quota)))
        return msgspec.structs.replace(record, altered_configs=change.names)

    record, since = alter_quota(settings, entity, moment, altered)
    what = "removed" if record.quota is None else written(record.quota)
    print(f"Updated config for entity: {entity}: {what} from {shown(since)} on.")


@app.command(cls=EntityCommand, epilog=LONG_FORM)
def cancel(
    context: typer.Context,
    effective_at: Annotated[str, typer.Option(metavar="TIME", help="When the change would hold from.")],
    user: User = None,
    user_defaults: UserDefaults = False,
    client: Client = None,
    client_defaults: ClientDefaults = False,
    comment: Comment = None,
    overrides: Overrides = None,
    config: ConfigFile = None,
    server: BootstrapServer = None,
) -> None:
    """Take a scheduled change back."""
    entity = entity_of(user, user_defaults, client, client_defaults)
    moment = moment_of("--effective-at", effective_at)
    settings = settings_of(context, overrides, config, server)
    from quota.kafka.quota_log import read_log
    from quota.kafka.quota_store import write_records

    log = read_log(settings)
    found = [each for each in log.timeline.scheduled(log.now) if (each.entity, each.moment) == (entity, moment)]
    if not found:
        raise BadInput(f"{entity} has no change scheduled for {shown(moment)}; quotas describe lists them")
    (entry,) = write_records(settings, [_signed(settings, None, comment, cancelling(found[0]))])
    if entry.timestamp >= moment:
        raise BadInput(f"too late: the change of {shown(moment)} for {entity} holds already")
    print(f"Cancelled for entity: {entity}: the change of {shown(moment)}.")


@app.command(cls=EntityCommand, epilog=f"{LONG_FORM} A type without a name stands for all of it.")
def describe(
    context: typer.Context,
    user: User = None,
    user_defaults: UserDefaults = False,
    any_user: AnyUser = False,
    client: Client = None,
    client_defaults: ClientDefaults = False,
    any_client: AnyClient = False,
    strict: Annotated[bool, typer.Option("--strict", help="No quotas with a part that is not asked for.")] = False,
    as_json: Json = False,
    overrides: Overrides = None,
    config: ConfigFile = None,
    server: BootstrapServer = None,
) -> None:
    """List the quotas that are set: all of them, or those that match (KIP-546)."""
    wanted = EntityFilter.of(user, user_defaults, any_user, client, client_defaults, any_client, strict=strict)
    settings = settings_of(context, overrides, config, server)
    from jobs.quota_views import configs, describe_lines, print_json
    from quota.kafka.quota_log import read_log

    log = read_log(settings)
    found = [each for each in log.timeline.configured(log.now) if wanted.matches(each.entity)]
    scheduled = [each for each in log.timeline.scheduled(log.now) if wanted.matches(each.entity)]
    if as_json:
        set_now = [{"entity": each.entity, **(configs(each.quota) or {}), "since": each.moment} for each in found]
        later = [
            {"entity": each.entity, **(configs(each.quota) or {RATE: None}), "scheduled_for": each.moment}
            for each in scheduled
        ]
        print_json([*set_now, *later])
        return
    for line in describe_lines(found, scheduled):
        print(line)
    if not found:
        print("No quotas are set." if wanted.is_open else "No such quota is set.")


@app.command()
def resolve(
    context: typer.Context,
    user: User = None,
    client: Client = None,
    at: At = None,
    as_json: Json = False,
    overrides: Overrides = None,
    config: ConfigFile = None,
    server: BootstrapServer = None,
) -> None:
    """Tell the quota that would apply to a user and client-id, and why."""
    names = (text_of("user", user) or ANONYMOUS, text_of("client", client) or NO_CLIENT_ID)
    given = None if at is None else moment_of("--at", at)
    settings = settings_of(context, overrides, config, server)
    from jobs.quota_views import print_json, resolve_json, resolve_lines
    from quota.kafka.quota_log import read_log

    log = read_log(settings)
    moment = log.now if given is None else given
    try:
        found = judged_by(*names, moment, log.quotas, settings.policy)
    except BadRecord as error:
        raise MutationQuotaError(
            f"requests of user {quoted(names[0])} with client-id {quoted(names[1])} are dead letters: {error}"
        ) from None
    levels = [] if found.callback else log.timeline.levels(*names, moment)
    if as_json:
        print_json(resolve_json(found, levels, settings.quota.window, moment))
        return
    for line in resolve_lines(found, levels, settings.quota.window, moment):
        print(line)


@app.command(cls=EntityCommand, epilog=LONG_FORM)
def history(
    context: typer.Context,
    user: User = None,
    user_defaults: UserDefaults = False,
    client: Client = None,
    client_defaults: ClientDefaults = False,
    as_json: Json = False,
    overrides: Overrides = None,
    config: ConfigFile = None,
    server: BootstrapServer = None,
) -> None:
    """Tell who changed what, when and why, from the quota topic: whole for a week, then the last change of each.

    The Delta table quota_changes keeps the whole of it.
    """
    given = (user, user_defaults, client, client_defaults)
    entity = None if given == (None, False, None, False) else entity_of(*given)
    settings = settings_of(context, overrides, config, server)
    from jobs import quota_views
    from quota.kafka.quota_log import read_log

    log = read_log(settings, keep=True)
    rows = list(quota_views.history(log.entries, entity))
    if as_json:
        quota_views.print_json(rows)
        return
    for row in rows:
        print(quota_views.history_line(row))
    if not rows:
        print("No changes.")


@app.command()
def validate(file: QuotaFile) -> None:
    """Check a file of quotas, and tell who could pass them by; no cluster is asked."""
    records = _read_file(file)
    for each in loopholes({record.entity for record in records}):
        print(f"warning: {each}", file=sys.stderr)
    print(f"{file}: {len(records)} quotas, valid")


@app.command()
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
        _prepare(settings)
    moment = later_moment("--effective-at", effective_at)
    log = read_log(settings)
    steps = plan(records, log.timeline, log.now if moment is None else moment)
    _carry_out(settings, steps, moment, comment, dry_run=dry_run, as_json=as_json)


@app.command()
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
    past = moment_of("--to", to)
    if past > now_ms():
        raise BadInput(f"--to {to}: that is not past yet")
    settings = settings_of(context, overrides, config, server)
    from quota.kafka.quota_log import read_log
    from quota.kafka.topics import QUOTAS_KEPT_MS

    if past < now_ms() - QUOTAS_KEPT_MS:
        raise BadInput(
            f"--to {to}: the quota topic is compacted, and tells no more how quotas were so long ago; "
            "take them from the table quota_changes, and apply them as a file"
        )
    _prepare(settings)
    log = read_log(settings, keep=True)
    known = QuotaTimeline()
    for entry in log.entries:
        if entry.timestamp <= past:
            known.add(change_of(entry.record, entry.timestamp))
    steps = back_to(known, past, log.timeline, log.now)
    why = comment or f"rollback to {shown(past)}"
    _carry_out(settings, steps, None, why, dry_run=dry_run, as_json=as_json)


@app.command()
def export(
    context: typer.Context,
    style: Annotated[Format, typer.Option("--format", help="YAML for apply, or commands for a broker.")] = Format.YAML,
    at: At = None,
    overrides: Overrides = None,
    config: ConfigFile = None,
    server: BootstrapServer = None,
) -> None:
    """Print all quotas: as the file that apply takes, or as the kafka-configs.sh lines that set the same."""
    given = None if at is None else moment_of("--at", at)
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


def _signed(settings: Settings, effective_at: int | None, comment: str | None, record: QuotaRecord) -> QuotaRecord:
    return signed(record, effective_at, operator(settings), text_of("comment", comment))


def _carry_out(
    settings: Settings,
    steps: Sequence[Step],
    effective_at: int | None,
    comment: str | None,
    *,
    dry_run: bool,
    as_json: bool,
) -> None:
    from jobs.quota_views import plan_json, plan_line, print_json
    from quota.kafka.quota_store import write_records

    if not as_json:
        for step in steps:
            print(plan_line(step))
    if not dry_run and steps:
        write_records(settings, [_signed(settings, effective_at, comment, step.record) for step in steps])
    if as_json:
        print_json({"applied": not dry_run, "changes": [plan_json(step) for step in steps]})
    else:
        done = "would be made" if dry_run else "made"
        print(f"{len(steps)} changes {done}." if steps else "Nothing to change.")


def _prepare(settings: Settings) -> None:
    from quota.kafka.topics import prepare_topics

    prepare_topics(settings, [settings.topics.quotas])
