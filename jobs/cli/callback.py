"""`mutation-quota callback`: the class that decides which requests share a quota, and how large it is (KIP-257)."""

from dataclasses import replace
from typing import Annotated

import typer

from jobs.cli.options import (
    Comment,
    EffectiveAt,
    KafkaOptions,
    ScheduledAt,
    TargetOptions,
    parse_effective_at,
    parse_pair,
    parse_time,
    split_configs,
)
from jobs.cli.output import OutputOptions, print_text, print_warnings
from jobs.cli.quotas.changes import cancel_scheduled, prepare_quota_topic, read_log, sign
from quota.callbacks.instance import check_setting
from quota.errors import BadInput, NotFound
from quota.records.quota_log import CallbackRecord, CallbackSetting, ClusterRecord
from quota.settings import Settings
from quota.text import format_time, plural
from schemas.documents.quotas import AlteredCallback, Callback, CancelledChange, PublishedCluster, ScheduledCallback


def describe(*, output: OutputOptions, kafka: KafkaOptions) -> None:
    """Show the callback in force and its configs.

    Also shows the scheduled changes.

    Examples:
      mutation-quota callback describe
      mutation-quota callback describe -o yaml
    """
    settings = kafka.read()
    from jobs.audit.quota_history import format_callback

    log = read_log(settings)
    present, scheduled = log.quotas.callback(log.now), log.quotas.settings.scheduled(log.now)

    def lines() -> None:
        print_text(f"Callback is {format_callback(present)}")
        for change in scheduled:
            print_text(f"Scheduled: {format_callback(change.setting)} (from {format_time(change.moment)} on)")

    output.print(Callback(present, [ScheduledCallback(change.setting, change.moment) for change in scheduled]), lines)


def alter(
    class_name: Annotated[
        str | None, typer.Option("--class", metavar="NAME", help="package.module.Class. Default: the class in force.")
    ] = None,
    add_config: Annotated[
        list[str] | None,
        typer.Option("--add-config", metavar="NAME=VALUE,...", help="Configs to set; lists in brackets. Repeatable."),
    ] = None,
    delete_config: Annotated[
        list[str] | None, typer.Option("--delete-config", metavar="NAME,...", help="Configs to remove. Repeatable.")
    ] = None,
    reset: Annotated[
        bool, typer.Option("--reset", help="Return to the callback and the configs in the settings.")
    ] = False,
    effective_at: EffectiveAt = None,
    comment: Comment = None,
    *,
    output: OutputOptions,
    kafka: KafkaOptions,
) -> None:
    """Replace the callback or change its configs.

    The change takes effect immediately, or at --effective-at, without a restart. The class must be that of the settings
    (quota.callback_class), or be named in quota.callback_classes. Other configs of the callback in force stay; another
    class starts without configs.

    Examples:
      mutation-quota callback alter --add-config group.pay.users=alice
      mutation-quota callback alter --reset --comment 'back to normal'
    """
    added, deleted = split_configs(add_config), split_configs(delete_config)
    if reset and (class_name or added or deleted):
        raise BadInput("--reset excludes --class, --add-config and --delete-config")
    if not (reset or class_name or added or deleted):
        raise BadInput("nothing to change: give --class, --add-config, --delete-config or --reset")
    settings = kafka.read()
    moment = parse_effective_at(effective_at)
    if class_name is not None:
        _check_allowed(class_name, settings)
    from jobs.audit.quota_history import callback_text, format_callback
    from quota.kafka.quotas.writer import QuotaWriter

    def make_record(present: CallbackSetting) -> CallbackRecord:
        if reset:
            return sign(CallbackRecord(None), comment, moment)
        setting = _altered(present, class_name, added, deleted)
        _check_allowed(setting.class_name, settings)
        check_setting(setting)
        changed = {name for name, _ in setting.configs.items() ^ present.configs.items()}
        same_class = setting.class_name == present.class_name
        record = CallbackRecord(setting, altered_configs=sorted(changed) if same_class else None)
        return sign(record, comment, moment)

    prepare_quota_topic(settings)
    writer = QuotaWriter(settings)
    record, since = writer.alter_callback(make_record, moment)
    log = writer.read()
    for change in log.quotas.settings.scheduled(log.now):
        if change.moment != since:
            cancelling = f"mutation-quota callback cancel --effective-at {format_time(change.moment)}"
            print_warnings([f"still scheduled: {callback_text(change)}; to cancel this: {cancelling}"])
    when = "already" if since is None else f"from {format_time(since)} on"
    output.print(
        AlteredCallback(record.callback, since),
        lambda: print_text(f"Callback is {format_callback(record.callback)} {when}."),
    )


def cancel(
    effective_at: ScheduledAt = None, comment: Comment = None, *, output: OutputOptions, kafka: KafkaOptions
) -> None:
    """Cancel a scheduled change of the callback.

    If there are several, --effective-at names one. callback describe lists them and their times.

    Examples:
      mutation-quota callback cancel
      mutation-quota callback cancel --effective-at 2027-01-01
    """
    given = None if effective_at is None else parse_time("--effective-at", effective_at)
    settings = kafka.read()
    log = read_log(settings)
    moment = cancel_scheduled(settings, log.quotas.settings.scheduled(log.now), given, comment, "the callback")
    output.print(
        CancelledChange(None, moment),
        lambda: print(f"Cancelled the change of the callback scheduled for {format_time(moment)}."),
    )


def publish_metadata(
    source: Annotated[
        str | None,
        typer.Option(
            "--source-server", metavar="HOST:PORT", help="Cluster to describe. Default: kafka.target_servers."
        ),
    ] = None,
    comment: Comment = None,
    *,
    output: OutputOptions,
    kafka: TargetOptions,
) -> None:
    """Publish topics, partitions and leaders for callbacks.

    Writes the metadata to the quota log if it has changed since the last time, and once a day. Callbacks that depend on
    partitions use it for requests from then on; status shows its age. The log keeps each record for a week: publish
    about every hour, not every second.

    Examples:
      mutation-quota callback publish-metadata
      mutation-quota callback publish-metadata --source-server target:9092
    """
    if source == "":
        raise BadInput("--source-server is empty: expected HOST:PORT")
    settings = kafka.read()
    from quota.kafka.quotas.writer import publish_cluster
    from quota.kafka.topics.topic_admin import read_cluster

    prepare_quota_topic(settings)
    connection = settings.target_connection
    if source is not None:
        connection = replace(connection, servers=source, servers_from="--source-server")
    cluster = read_cluster(connection, settings.kafka.timeout_seconds)
    since = publish_cluster(settings, sign(ClusterRecord(cluster), comment))
    document = PublishedCluster(since is not None, since, len(cluster.topics), cluster.partitions)
    counts = f"{plural(document.topic_count, 'topic')} with {plural(document.partition_count, 'partition')}"
    line = f"Nothing has changed: {counts}." if since is None else f"Published {counts}, from {format_time(since)} on."
    output.print(document, lambda: print(line))


def _check_allowed(class_name: str, settings: Settings) -> None:
    allowed = settings.quota.callbacks.allowed
    if class_name not in allowed:
        raise BadInput(
            f"--class {class_name} is not allowed by the settings (allowed: {', '.join(sorted(allowed))}); "
            f"add {class_name} to quota.callback_classes, here and in the settings of the jobs"
        )


def _altered(present: CallbackSetting, class_name: str | None, added: list[str], deleted: list[str]) -> CallbackSetting:
    configs = dict(present.configs) if class_name in {None, present.class_name} else {}
    for name in deleted:
        if configs.pop(name, None) is None:
            raise NotFound(f"--delete-config {name}: the callback does not have this config")
    for pair in added:
        name, value = parse_pair("add-config", pair)
        configs[name] = value
    return CallbackSetting(class_name or present.class_name, configs)
