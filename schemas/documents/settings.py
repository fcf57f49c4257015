"""Documents on the settings in force."""

from typing import Literal

import msgspec


class SettingInForce(msgspec.Struct, frozen=True):
    """A setting in force."""

    name: str
    """Section and key, as in `--set`; of a table also the name of the entry."""
    value: bool | int | float | str | list[str]
    """The value; `********` instead of a secret."""
    default: bool | int | float | str | list[str] | None
    """The default; null for an entry of a table."""
    changed: bool
    """Whether the value is not the default."""
    origin: Literal["default", "file", "environment", "option", "kafka"]
    """Where the value comes from; `kafka` for a setting of `[target]` that follows `[kafka]`."""
    source: str | None
    """The file, the variable of the environment, or the option with its file; null for `--set` and other origins."""


class SettingsInForce(msgspec.Struct, frozen=True):
    """The output of `config show`."""

    file: str | None
    """The settings file that was read; null for none."""
    settings: list[SettingInForce]
    """The settings, in the order of the sections and their keys."""
