"""`mutation-quota callback`: who decides which requests share a quota, and how much it is (KIP-257)."""

from typing import Annotated

import typer

from jobs.cli.options import (
    BootstrapServer,
    Comment,
    ConfigFile,
    EffectiveAt,
    Json,
    Overrides,
    operator,
    pair_of,
    print_json,
    settings_of,
    text_of,
)
from jobs.cli.times import parse_future_time, parse_time
from quota.callbacks.loading import check_setting
from quota.errors import BadInput
from quota.records.callback import CallbackSetting
from quota.records.quota_log import CallbackRecord
from quota.settings.model import Settings
from quota.text import format_time


def describe(
    context: typer.Context,
    as_json: Json = False,
    overrides: Overrides = None,
    config: ConfigFile = None,
    server: BootstrapServer = None,
) -> None:
    """Tell the callback that is in force, and its configs."""
    settings = settings_of(context, overrides, config, server)
    from jobs.cli.control.quota_text import callback_text
    from quota.kafka.quota_log import read_log

    log = read_log(settings)
    found, scheduled = log.quotas.callback(log.now), log.quotas.scheduled(log.now)
    if as_json:
        later = [{"callback": each.setting, "scheduled_for": each.moment} for each in scheduled]
        print_json({"callback": found, "scheduled": later})
        return
    print(f"Callback is {callback_text(found)}")
    for each in scheduled:
        print(f"Scheduled: {callback_text(each.setting)} (from {format_time(each.moment)} on)")


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
    settings = settings_of(context, overrides, config, server)
    moment = parse_future_time("--effective-at", effective_at)
    from jobs.cli.control.quota_text import callback_text
    from quota.kafka.quota_writer import alter_callback
    from quota.kafka.topics.specs import prepare_topics

    def altered(present: CallbackSetting) -> CallbackRecord:
        who = (moment, operator(settings), text_of("comment", comment))
        if reset:
            return CallbackRecord(None, *who)
        wanted = _changed(present, class_name, add_config or [], delete_config or [])
        _check_allowed(wanted, settings)
        changed = {name for name, _ in wanted.configs.items() ^ present.configs.items()}
        same_class = wanted.class_name == present.class_name
        return CallbackRecord(wanted, *who, altered_configs=sorted(changed) if same_class else None)

    prepare_topics(settings, [settings.topics.quotas])
    record, since = alter_callback(settings, moment, altered)
    held = "already" if since is None else f"from {format_time(since)} on"
    print(f"Callback is {callback_text(record.callback)} {held}.")


def cancel(
    context: typer.Context,
    effective_at: Annotated[str, typer.Option(metavar="TIME", help="When the change would hold from.")],
    comment: Comment = None,
    overrides: Overrides = None,
    config: ConfigFile = None,
    server: BootstrapServer = None,
) -> None:
    """Take a scheduled change back."""
    moment = parse_time("--effective-at", effective_at)
    settings = settings_of(context, overrides, config, server)
    from quota.kafka.quota_log import read_log
    from quota.kafka.quota_writer import write_records

    log = read_log(settings)
    found = [each for each in log.quotas.scheduled(log.now) if each.moment == moment]
    if not found:
        raise BadInput(f"no change is scheduled for {format_time(moment)}; callback describe lists them")
    record = CallbackRecord(found[-1].setting, moment, operator(settings), text_of("comment", comment), cancelled=True)
    (entry,) = write_records(settings, [record])
    if entry.timestamp >= moment:
        raise BadInput(f"too late: the change of {format_time(moment)} holds already")
    print(f"Cancelled the change of the callback for {format_time(moment)}.")


def _check_allowed(wanted: CallbackSetting, settings: Settings) -> None:
    allowed = settings.quota.callbacks.allowed
    if wanted.class_name not in allowed:
        raise BadInput(
            f"--class {wanted.class_name}: the settings allow {', '.join(sorted(allowed))}; "
            "name it in quota.callback_classes, here and where the jobs run"
        )
    check_setting(wanted)


def _changed(present: CallbackSetting, class_name: str | None, added: list[str], deleted: list[str]) -> CallbackSetting:
    configs = dict(present.configs) if class_name in {None, present.class_name} else {}
    for name in deleted:
        if configs.pop(name, None) is None:
            raise BadInput(f"--delete-config {name}: the callback has no such config")
    for config in added:
        name, value = pair_of("add-config", config)
        configs[name] = value
    return CallbackSetting(class_name or present.class_name, configs)
