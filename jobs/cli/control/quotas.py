"""`mutation-quota quotas`: in the option names of kafka-configs.sh."""

from typing import Annotated

import msgspec
import typer

from jobs.cli.control.configs import ConfigChange, format_quota
from jobs.cli.control.entities import (
    AnyClient,
    AnyUser,
    ClientDefaults,
    EntityFilter,
    UserDefaults,
    entity_of,
)
from jobs.cli.control.quota_files import prepare_quotas, signed_record
from jobs.cli.options import (
    At,
    BootstrapServer,
    Client,
    Comment,
    ConfigFile,
    EffectiveAt,
    Json,
    Overrides,
    User,
    print_json,
    settings_of,
    text_of,
)
from jobs.cli.times import parse_future_time, parse_time
from quota.admission.resolve import judged_by
from quota.errors import BadInput, BadRecord, MutationQuotaError
from quota.records.quota import Quota
from quota.records.quota_log import RATE, QuotaRecord
from quota.records.request import ANONYMOUS, NO_CLIENT_ID
from quota.text import format_time, quoted
from quota.timeline.plan import cancelling, set_to


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
    moment = parse_future_time("--effective-at", effective_at)
    from quota.kafka.quota_writer import alter_quota

    prepare_quotas(settings)

    def altered(quota: Quota | None) -> QuotaRecord:
        record = signed_record(settings, moment, comment, set_to(entity, change.on(quota)))
        return msgspec.structs.replace(record, altered_configs=change.names)

    record, since = alter_quota(settings, entity, moment, altered)
    what = "removed" if record.quota is None else format_quota(record.quota)
    print(f"Updated config for entity: {entity}: {what} from {format_time(since)} on.")


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
    moment = parse_time("--effective-at", effective_at)
    settings = settings_of(context, overrides, config, server)
    from quota.kafka.quota_log import read_log
    from quota.kafka.quota_writer import write_records

    log = read_log(settings)
    found = [each for each in log.timeline.scheduled(log.now) if (each.entity, each.moment) == (entity, moment)]
    if not found:
        raise BadInput(f"{entity} has no change scheduled for {format_time(moment)}; quotas describe lists them")
    (entry,) = write_records(settings, [signed_record(settings, None, comment, cancelling(found[0]))])
    if entry.timestamp >= moment:
        raise BadInput(f"too late: the change of {format_time(moment)} for {entity} holds already")
    print(f"Cancelled for entity: {entity}: the change of {format_time(moment)}.")


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
    from jobs.cli.control.quota_text import configs, describe_lines
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
    given = None if at is None else parse_time("--at", at)
    settings = settings_of(context, overrides, config, server)
    from jobs.cli.control.quota_text import resolve_json, resolve_lines
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
    from jobs.cli.control import quota_text
    from quota.kafka.quota_log import read_log

    log = read_log(settings, keep=True)
    rows = list(quota_text.history(log.entries, entity))
    if as_json:
        print_json(rows)
        return
    for row in rows:
        print(quota_text.history_line(row))
    if not rows:
        print("No changes.")
