"""`mutation-quota config`: the settings in force."""

from typing import Annotated

import typer

from jobs.cli.options import TargetOptions
from jobs.cli.output import OutputOptions, print_text, print_warnings
from jobs.cli.tables import Columns, print_rows
from jobs.installation import jars_folder
from quota.callbacks.instance import check_callbacks
from quota.errors import NotFound
from quota.planning.warnings import user_warnings
from quota.settings.listing import ListedSetting, Value, listed_settings, table_names
from quota.settings.loading import LoadedSettings
from schemas.documents.status import SettingsInForce

Names = Annotated[
    list[str] | None, typer.Argument(metavar="NAME", help="Sections (quota) or settings (quota.window_num).")
]
Changed = Annotated[bool, typer.Option("--changed", help="Only settings that differ from their defaults.")]

_ORIGINS = {"default": "default", "option": "--set", "kafka": "as [kafka]"}

_COLUMNS: Columns = {
    "SETTING": "name",
    "VALUE": lambda setting: _text(setting.value),
    "DEFAULT": lambda setting: _text(setting.default),
    "FROM": lambda setting: setting.source or _ORIGINS[setting.origin],
}


def describe(names: Names = None, changed: Changed = False, *, output: OutputOptions, kafka: TargetOptions) -> None:
    """Check and show the settings in force.

    Connects to no cluster. The callback and folders of jars that are set must exist, and librdkafka must accept its
    properties.

    Each value has its source: a file, an environment variable, --set, or the default. Secrets are masked. A key that is
    not set in the section target takes its value from the section kafka.

    Examples:
      mutation-quota config describe --changed
      mutation-quota config describe kafka topics.partitions --output yaml
    """
    loaded = kafka.read_with_origins()
    _check_code(loaded)
    settings = loaded.settings
    print_warnings(
        [
            *user_warnings("quota.exempt_users", settings.quota.exempt_users),
            *user_warnings("topics.retired_users", settings.topics.retired_users),
            *user_warnings("client.user", [settings.client.user]),
        ]
    )
    selected = list(_selected(list(listed_settings(loaded)), names))
    shown = [setting for setting in selected if setting.changed or not changed]

    def table() -> None:
        print_text("No settings file." if loaded.file is None else f"Settings file: {_file(loaded)}")
        columns = _COLUMNS if changed else {heading: _COLUMNS[heading] for heading in _COLUMNS if heading != "DEFAULT"}
        if shown:
            print_rows(shown, columns, optional=("FROM",))
        else:
            print("None of these settings differs from its default." if changed else "This table has no entries.")

    output.print(SettingsInForce(_file(loaded), shown), table, items="settings")


def _check_code(loaded: LoadedSettings) -> None:
    """Check settings that name code or are passed on to it, as the programs that use them do when they start."""
    from quota.kafka.librdkafka import client_config

    settings = loaded.settings
    check_callbacks(settings.quota.callbacks)
    for connection in (settings.kafka.connection, settings.target_connection):
        if connection.security.more_librdkafka:
            client_config(connection)
    for section, folder in (("spark", settings.spark.jars), ("broker", settings.broker.jars)):
        if folder:
            jars_folder(folder, f"{section}.jars")


def _file(loaded: LoadedSettings) -> str | None:
    return None if loaded.file is None else str(loaded.file.absolute())


def _selected(settings: list[ListedSetting], names: list[str] | None) -> list[ListedSetting]:
    for name in names or ():
        if name not in table_names() and not any(_matches(setting, name) for setting in settings):
            raise NotFound(f"{name}: no such setting or section is in force; `config describe` lists all")
    return [setting for setting in settings if not names or any(_matches(setting, name) for name in names)]


def _matches(setting: ListedSetting, name: str) -> bool:
    return setting.name == name or setting.name.startswith(f"{name}.")


def _text(value: Value | None) -> str:
    if value is None or value in ("", []):
        return "-"
    if isinstance(value, list):
        return ", ".join(value)
    return str(value).lower() if isinstance(value, bool) else str(value)
