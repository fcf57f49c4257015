"""`mutation-quota completion`: scripts with which shells complete commands, options and values."""

import enum
from typing import Annotated

import typer
from typer.completion import get_completion_script  # type: ignore[attr-defined]

from quota.records.quota_log import QUOTA_CONFIGS
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
    return [f"{before}{comma}{each}" for each in QUOTA_CONFIGS if each.startswith(name)]


def complete_config(incomplete: str) -> list[str]:
    """Return the continuations of an incomplete value of `--add-config`, each up to its last value."""
    return [f"{each}=" for each in complete_config_name(incomplete)]


class Shell(enum.Enum):
    """A shell that can complete the program's arguments."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def completion(
    context: typer.Context,
    shell: Annotated[Shell, typer.Argument(metavar="SHELL", help="The shell: bash, zsh or fish.")],
) -> None:
    """Print the completion script of a shell.

    A shell that has run the script completes commands, options and values: add eval "$(mutation-quota completion bash)"
    to ~/.bashrc. mutation-quota --install-completion installs it for the current shell.

    Examples:
      mutation-quota completion bash
      mutation-quota completion fish
    """
    name = str(context.find_root().info_name)
    variable = f"_{name.replace('-', '_').upper()}_COMPLETE"
    print(get_completion_script(prog_name=name, complete_var=variable, shell=shell.value))
