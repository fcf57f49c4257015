"""Completion in shells, by the protocol that the installed scripts speak."""

import os
import subprocess

import pytest

from tests.support.programs import command_line


def completed(shell, line, word):
    """Return the completions of the last word of a line, as a shell asks for them."""
    asked = {
        "_MUTATION_QUOTA_COMPLETE": f"complete_{shell}",
        "COMP_WORDS": line,
        "COMP_CWORD": str(word),
        "_TYPER_COMPLETE_ARGS": line,
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
    }
    done = subprocess.run(command_line(), env=os.environ | asked, capture_output=True, text=True, check=True)
    return done.stdout


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
@pytest.mark.parametrize(
    ("line", "expected", "other"),
    [
        ("mutation-quota quo", "quotas", "enforce"),
        ("mutation-quota quotas des", "describe", "resolve"),
        ("mutation-quota quotas describe --out", "--output", "--user"),
        ("mutation-quota quotas describe --output js", "jsonl", "yaml"),
    ],
)
def test_commands_options_and_values_are_completed(shell, line, expected, other):
    found = completed(shell, line, len(line.split()) - 1)
    assert expected in found
    assert other not in found


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_for_a_shell_is_printed(shell):
    done = subprocess.run(
        command_line("--show-completion", shell),
        env=os.environ | {"_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert f"_MUTATION_QUOTA_COMPLETE=complete_{shell}" in done.stdout
