"""The settings in force, one by one, with their origins; secrets are masked."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from pydantic import SecretStr

from quota.settings.loading import ENV_BOOTSTRAP_SERVERS, ENV_PREFIX, LoadedSettings
from quota.settings.model import Settings
from quota.settings.secrets import MASK, is_secret, mask_logins

Value: TypeAlias = bool | int | float | str | list[str]
Origin: TypeAlias = Literal["default", "file", "environment", "option", "kafka"]

_TARGET = "target"


@dataclass(frozen=True, slots=True)
class ListedSetting:
    """A setting in force."""

    name: str
    """Section and key; for a table also the name of the entry."""
    value: Value
    default: Value | None
    """None for an entry of a table, which has no default."""
    origin: Origin
    """`kafka` for a key of `[target]` if none of them is set: it has its value in `[kafka]`."""
    source: str | None
    """The file, the variable of the environment, or the option; None for `--set` and other origins."""

    @property
    def is_changed(self) -> bool:
        """Whether the value is not the default."""
        return self.value != self.default


def listed_settings(loaded: LoadedSettings) -> Iterator[ListedSetting]:
    """Yield all settings, in the order of the sections and their keys."""
    defaults = Settings()
    inherits = not loaded.settings.target.is_own
    for section, keys in loaded.settings:
        for key in type(keys).model_fields:
            default = getattr(getattr(defaults, section), key)
            value = getattr(loaded.settings.kafka if section == _TARGET and inherits else keys, key)
            if section == _TARGET and inherits:
                entries = value.items() if isinstance(value, dict) else [(None, value)]
                for name, entry in entries:
                    path = (section, key) if name is None else (section, key, name)
                    yield _listed(path, entry, None if name else default, "kafka", None)
            elif isinstance(value, dict):
                yield from _entries(loaded.origins, section, key, value)
            else:
                yield _listed((section, key), value, default, *_origin(loaded.origins.get((section, key))))


def _entries(
    origins: Mapping[tuple[str, ...], str], section: str, key: str, table: Mapping[str, object]
) -> Iterator[ListedSetting]:
    for name, value in table.items():
        path = (section, key, name)
        yield _listed(path, value, None, *_origin(origins.get(path)))


def _listed(path: tuple[str, ...], value: object, default: object, origin: Origin, source: str | None) -> ListedSetting:
    name = ".".join(path)
    return ListedSetting(name, _shown(name, value), None if default is None else _shown(name, default), origin, source)


def _shown(name: str, value: object) -> Value:
    if isinstance(value, SecretStr):
        return MASK if value.get_secret_value() else ""
    if isinstance(value, list):
        return [mask_logins(str(each)) for each in value]
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
    return [f"{section}.{key}" for section, keys in Settings() for key in type(keys).model_fields]


def table_names() -> list[str]:
    """Return the names of the settings that are tables, which have entries of any name."""
    return [
        f"{section}.{key}"
        for section, keys in Settings()
        for key in type(keys).model_fields
        if isinstance(getattr(keys, key), dict)
    ]
