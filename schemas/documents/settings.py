"""Documents on the settings in force."""

import msgspec

from quota.settings.listing import ListedSetting


class SettingsInForce(msgspec.Struct, frozen=True):
    """The output of `config show`."""

    file: str | None
    """The settings file that was read; null for none."""
    settings: list[ListedSetting]
    """The settings, in the order of the sections and their keys."""
