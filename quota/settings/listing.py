"""The settings in force, one by one, with their origins; secrets are masked."""

from collections.abc import Iterator
from typing import Literal, TypeAlias

import msgspec
from pydantic import SecretStr

from quota.settings.loading import ENV_BOOTSTRAP_SERVERS, ENV_PREFIX, LoadedSettings
from quota.settings.model import Settings, sections
from quota.settings.secrets import MASK, is_secret, mask_logins
from quota.settings.security import IN_FILE

Value: TypeAlias = bool | int | float | str | list[str]
Origin: TypeAlias = Literal["default", "file", "environment", "option", "kafka"]

_TARGET = "target"


class ListedSetting(msgspec.Struct, frozen=True):
    """A setting in force."""

    name: str
    """Section and key, as in `--set`; of a table also the name of the entry."""
    value: Value
    """The value; `********` instead of a secret."""
    default: Value | None
    """The default; null for an entry of a table."""
    changed: bool
    """Whether the value is not the default."""
    origin: Origin
    """Where the value comes from; `kafka` for a setting of `[target]` that follows `[kafka]`."""
    source: str | None
    """The file, the variable of the environment, or the option with its file; null for `--set` and other origins."""


def listed_settings(loaded: LoadedSettings) -> Iterator[ListedSetting]:
    """Yield all settings, in the order of the sections and their keys."""
    defaults = Settings()
    for section, keys in sections().items():
        inherits = section == _TARGET and not loaded.settings.target.is_own
        values = loaded.settings.kafka if inherits else getattr(loaded.settings, section)
        for key, is_table in keys.items():
            value, default = getattr(values, key), getattr(getattr(defaults, section), key)
            entries = {(section, key, name): item for name, item in value.items()} if is_table else {}
            for path, entry in entries.items() if is_table else [((section, key), value)]:
                origin, source = ("kafka", None) if inherits else _origin(loaded.origins.get(path))
                name = ".".join(path)
                value_shown, default_shown = _shown(name, entry), None if is_table else _shown(name, default)
                yield ListedSetting(name, value_shown, default_shown, value_shown != default_shown, origin, source)


def _shown(name: str, value: object) -> Value:
    if isinstance(value, SecretStr):
        text = value.get_secret_value()
        is_file = text.startswith(IN_FILE) and name.count(".") == 1  # an entry of a table is passed on as it is
        return text if is_file else MASK if text else ""
    if isinstance(value, list):
        return [mask_logins(str(item)) for item in value]
    if is_secret(name) and value:
        return MASK
    return value if isinstance(value, bool | int | float) else mask_logins(str(value))


def _origin(origin: str | None) -> tuple[Origin, str | None]:
    if origin is None:
        return "default", None
    if origin.startswith("--set "):
        return "option", None
    if origin.startswith("--"):
        return "option", origin
    if origin.startswith(ENV_PREFIX) or origin == ENV_BOOTSTRAP_SERVERS:
        return "environment", origin
    return "file", origin


def setting_names() -> list[str]:
    """Return the names of all settings, as in `--set`, without the entries of tables."""
    return [f"{section}.{key}" for section, keys in sections().items() for key in keys]


def table_names() -> list[str]:
    """Return the names of the settings that are tables, which have entries of any name."""
    return [f"{section}.{key}" for section, keys in sections().items() for key, is_table in keys.items() if is_table]
