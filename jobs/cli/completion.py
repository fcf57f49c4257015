"""The values that shells complete; `--install-completion` is Typer's own."""

from quota.records.quota import QUOTA_CONFIGS
from quota.settings.listing import setting_names


def complete_setting(incomplete: str) -> list[str]:
    """Return the settings that begin with an incomplete value of `--set`."""
    return [f"{name}=" for name in setting_names() if name.startswith(incomplete)]


def complete_setting_name(incomplete: str) -> list[str]:
    """Return the sections and settings that begin with an incomplete name."""
    names = setting_names()
    sections = dict.fromkeys(name.partition(".")[0] for name in names)
    return [name for name in (*sections, *names) if name.startswith(incomplete)]


def complete_config_name(incomplete: str) -> list[str]:
    """Return the continuations of a list of configs such as `shadow,max`, whose last name is incomplete."""
    before, comma, name = incomplete.rpartition(",")
    return [f"{before}{comma}{config}" for config in QUOTA_CONFIGS if config.startswith(name)]


def complete_config(incomplete: str) -> list[str]:
    """Return the continuations of an incomplete value of `--add-config`, each up to its last value."""
    return [f"{config}=" for config in complete_config_name(incomplete)]
