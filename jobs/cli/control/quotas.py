"""Commands on single quotas: `mutation-quota quotas`, with the option names of kafka-configs.sh."""

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
    parse_entity,
    parse_optional_entity,
)
from jobs.cli.control.quota_log import prepare_quota_topic, sign
from jobs.cli.options import (
    At,
    BootstrapServer,
    Client,
    Comment,
    ConfigFile,
    EffectiveAt,
    Json,
    KafkaOptions,
    Overrides,
    ScheduledAt,
    User,
    print_json,
    read_settings,
)
from jobs.cli.output import OutputOptions
from jobs.cli.times import parse_future_time, parse_time
from quota.admission.resolve import resolve_quota
from quota.errors import BadInput, BadRecord, MutationQuotaError, NotFound
from quota.records.quota import Quota
from quota.records.quota_log import RATE_CONFIG, QuotaRecord
from quota.records.request import ANONYMOUS, NO_CLIENT_ID
from quota.text import format_time, quoted
from quota.timeline.plan import cancellation_record, quota_record
from schemas.documents.quotas import Quotas


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
            help=f"{RATE_CONFIG} (mutations/s), controller_mutation_burst, max_debt_ms, shadow (true or false).",
        ),
    ] = None,
    delete_config: Annotated[
        str | None, typer.Option(metavar="NAME,...", help=f"Remove options; {RATE_CONFIG} removes the whole quota.")
    ] = None,
    effective_at: EffectiveAt = None,
    comment: Comment = None,
    overrides: Overrides = None,
    config: ConfigFile = None,
    server: BootstrapServer = None,
) -> None:
    """Set, change or remove the quota of an entity; it holds for requests from now on."""
    entity = parse_entity(user=user, user_defaults=user_defaults, client=client, client_defaults=client_defaults)
    change = ConfigChange.parse(add_config, delete_config)
    settings = read_settings(context, overrides, config, server)
    moment = parse_future_time("--effective-at", effective_at)
    from quota.kafka.quota_writer import alter_quota

    prepare_quota_topic(settings)

    def make_record(present: Quota | None) -> QuotaRecord:
        record = sign(quota_record(entity, change.applied_to(present)), settings, comment, moment)
        return msgspec.structs.replace(record, altered_configs=change.names)

    record, since = alter_quota(settings, entity, moment, make_record)
    what = "removed" if record.quota is None else format_quota(record.quota)
    print(f"Updated config for entity: {entity}: {what} from {format_time(since)} on.")


def cancel(
    context: typer.Context,
    effective_at: ScheduledAt,
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
    entity = parse_entity(user=user, user_defaults=user_defaults, client=client, client_defaults=client_defaults)
    moment = parse_time("--effective-at", effective_at)
    settings = read_settings(context, overrides, config, server)
    from quota.kafka.quota_log import read_log
    from quota.kafka.quota_writer import write_records

    log = read_log(settings)
    scheduled = [each for each in log.timeline.scheduled(log.now) if (each.entity, each.moment) == (entity, moment)]
    if not scheduled:
        raise NotFound(f"{entity} has no change scheduled for {format_time(moment)}; see quotas describe")
    (entry,) = write_records(settings, [sign(cancellation_record(scheduled[0]), settings, comment)])
    if entry.timestamp >= moment:
        raise BadInput(f"too late: the change of {format_time(moment)} for {entity} holds already")
    print(f"Cancelled for entity: {entity}: the change of {format_time(moment)}.")


def describe(
    user: User = None,
    user_defaults: UserDefaults = False,
    any_user: AnyUser = False,
    client: Client = None,
    client_defaults: ClientDefaults = False,
    any_client: AnyClient = False,
    strict: Annotated[bool, typer.Option("--strict", help="No quotas with a part that is not asked for.")] = False,
    *,
    output: OutputOptions,
    kafka: KafkaOptions,
) -> None:
    """List the quotas that are set: all of them, or those that match (KIP-546)."""
    entity_filter = EntityFilter.parse(
        user=user,
        user_defaults=user_defaults,
        any_user=any_user,
        client=client,
        client_defaults=client_defaults,
        any_client=any_client,
        strict=strict,
    )
    settings = kafka.read()
    from jobs.cli.control.quota_text import listed_quotas, print_quotas
    from quota.kafka.quota_log import read_log

    log = read_log(settings)
    configured = [each for each in log.timeline.configured(log.now) if entity_filter.matches(each.entity)]
    scheduled = [each for each in log.timeline.scheduled(log.now) if entity_filter.matches(each.entity)]

    def table() -> None:
        print_quotas(configured, scheduled)
        if not configured:
            print("No quotas are set." if entity_filter.is_open else "No such quota is set.")

    output.print(Quotas(listed_quotas(configured, scheduled)), table, items="quotas")


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
    user_name, client_id = user or ANONYMOUS, client or NO_CLIENT_ID
    requested_at = None if at is None else parse_time("--at", at)
    settings = read_settings(context, overrides, config, server)
    from jobs.cli.control.quota_text import resolve_json, resolve_lines
    from quota.kafka.quota_log import read_log

    log = read_log(settings)
    moment = log.now if requested_at is None else requested_at
    try:
        resolution = resolve_quota(user_name, client_id, moment, log.quotas, settings.policy)
    except BadRecord as error:
        raise MutationQuotaError(
            f"requests of user {quoted(user_name)} with client-id {quoted(client_id)} are dead letters: {error}"
        ) from None
    levels = [] if resolution.callback else log.timeline.levels(user_name, client_id, moment)
    if as_json:
        print_json(resolve_json(resolution, levels, settings.quota.window, moment))
        return
    for line in resolve_lines(resolution, levels, settings.quota.window, moment):
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
    entity = parse_optional_entity(
        user=user, user_defaults=user_defaults, client=client, client_defaults=client_defaults
    )
    settings = read_settings(context, overrides, config, server)
    from jobs.cli.control.history_text import history_json, history_line
    from quota.kafka.quota_log import read_log

    log = read_log(settings, with_entries=True)
    rows = list(history_json(log.entries, entity))
    if as_json:
        print_json(rows)
        return
    for row in rows:
        print(history_line(row))
    if not rows:
        print("No changes.")
