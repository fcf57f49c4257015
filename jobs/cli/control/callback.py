"""`mutation-quota callback`: the class that decides which requests share a quota, and how large it is (KIP-257)."""

from typing import Annotated

import typer

from jobs.cli.control.quota_log import prepare_quota_topic, sign
from jobs.cli.options import (
    BootstrapServer,
    Comment,
    ConfigFile,
    EffectiveAt,
    Json,
    Overrides,
    ScheduledAt,
    parse_pair,
    print_json,
    read_settings,
)
from jobs.cli.times import parse_future_time, parse_time
from quota.callbacks.loading import check_setting
from quota.errors import BadInput, NotFound
from quota.records.callback import CallbackSetting
from quota.records.quota_log import CallbackRecord
from quota.settings import Settings
from quota.text import format_time


def describe(
    context: typer.Context,
    as_json: Json = False,
    overrides: Overrides = None,
    config: ConfigFile = None,
    server: BootstrapServer = None,
) -> None:
    """Tell the callback that is in force, and its configs."""
    settings = read_settings(context, overrides, config, server)
    from jobs.cli.control.quota_text import format_callback
    from quota.kafka.quota_log import read_log

    log = read_log(settings)
    present, scheduled = log.quotas.callback(log.now), log.quotas.scheduled(log.now)
    if as_json:
        later = [{"callback": each.setting, "scheduled_for": each.moment} for each in scheduled]
        print_json({"callback": present, "scheduled": later})
        return
    print(f"Callback is {format_callback(present)}")
    for each in scheduled:
        print(f"Scheduled: {format_callback(each.setting)} (from {format_time(each.moment)} on)")


def alter(
    context: typer.Context,
    class_name: Annotated[
        str | None, typer.Option("--class", metavar="NAME", help="package.module.Class; the one in force by default.")
    ] = None,
    add_config: Annotated[
        list[str] | None, typer.Option("--add-config", metavar="NAME=VALUE", help="One config; may be repeated.")
    ] = None,
    delete_config: Annotated[
        list[str] | None, typer.Option("--delete-config", metavar="NAME", help="One config; may be repeated.")
    ] = None,
    reset: Annotated[bool, typer.Option("--reset", help="Back to the callback and configs of the settings.")] = False,
    effective_at: EffectiveAt = None,
    comment: Comment = None,
    overrides: Overrides = None,
    config: ConfigFile = None,
    server: BootstrapServer = None,
) -> None:
    """Put another callback in place, or change its configs; it holds for requests from now on.

    A class has to be that of the settings (quota.callback_class), or named in quota.callback_classes. Configs of
    the callback in force stay where they are not changed; another class begins with none.
    """
    if reset and (class_name or add_config or delete_config):
        raise BadInput("--reset goes back to the settings: leave the other options out")
    if not (reset or class_name or add_config or delete_config):
        raise BadInput("what to change? give --class, --add-config, --delete-config or --reset")
    settings = read_settings(context, overrides, config, server)
    moment = parse_future_time("--effective-at", effective_at)
    from jobs.cli.control.quota_text import format_callback
    from quota.kafka.quota_writer import alter_callback

    def make_record(present: CallbackSetting) -> CallbackRecord:
        if reset:
            return sign(CallbackRecord(None), settings, comment, moment)
        setting = _altered(present, class_name, add_config or [], delete_config or [])
        _check_allowed(setting, settings)
        changed = {name for name, _ in setting.configs.items() ^ present.configs.items()}
        same_class = setting.class_name == present.class_name
        record = CallbackRecord(setting, altered_configs=sorted(changed) if same_class else None)
        return sign(record, settings, comment, moment)

    prepare_quota_topic(settings)
    record, since = alter_callback(settings, moment, make_record)
    when = "already" if since is None else f"from {format_time(since)} on"
    print(f"Callback is {format_callback(record.callback)} {when}.")


def cancel(
    context: typer.Context,
    effective_at: ScheduledAt,
    comment: Comment = None,
    overrides: Overrides = None,
    config: ConfigFile = None,
    server: BootstrapServer = None,
) -> None:
    """Take a scheduled change back."""
    moment = parse_time("--effective-at", effective_at)
    settings = read_settings(context, overrides, config, server)
    from quota.kafka.quota_log import read_log
    from quota.kafka.quota_writer import write_records

    log = read_log(settings)
    scheduled = [each for each in log.quotas.scheduled(log.now) if each.moment == moment]
    if not scheduled:
        raise NotFound(f"no change is scheduled for {format_time(moment)}; see callback describe")
    record = CallbackRecord(scheduled[-1].setting, effective_at=moment, cancelled=True)
    (entry,) = write_records(settings, [sign(record, settings, comment)])
    if entry.timestamp >= moment:
        raise BadInput(f"too late: the change of {format_time(moment)} holds already")
    print(f"Cancelled the change of the callback for {format_time(moment)}.")


def _check_allowed(setting: CallbackSetting, settings: Settings) -> None:
    allowed = settings.quota.callbacks.allowed
    if setting.class_name not in allowed:
        raise BadInput(
            f"--class {setting.class_name}: the settings allow {', '.join(sorted(allowed))}; "
            "name it in quota.callback_classes, here and where the jobs run"
        )
    check_setting(setting)


def _altered(present: CallbackSetting, class_name: str | None, added: list[str], deleted: list[str]) -> CallbackSetting:
    configs = dict(present.configs) if class_name in {None, present.class_name} else {}
    for name in deleted:
        if configs.pop(name, None) is None:
            raise BadInput(f"--delete-config {name}: the callback has no such config")
    for pair in added:
        name, value = parse_pair("add-config", pair)
        configs[name] = value
    return CallbackSetting(class_name or present.class_name, configs)
