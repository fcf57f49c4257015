"""Completion in shells, by the protocol that the installed scripts speak."""

import os
from unittest import mock

import pytest

from tests.support.programs import run


def completed(shell, line, word):
    """Return the completions of the last word of a line, as a shell requests them."""
    environment = {
        "_MUTATION_QUOTA_COMPLETE": f"complete_{shell}",
        "COMP_WORDS": line,
        "COMP_CWORD": str(word),
        "_TYPER_COMPLETE_ARGS": line,
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
    }
    with mock.patch.dict(os.environ, environment):
        done = run()
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
@pytest.mark.parametrize(
    ("line", "expected", "other"),
    [
        ("mutation-quota quo", "quotas", "enforce"),
        ("mutation-quota quotas describe --out", "--output", "--user"),
        ("mutation-quota quotas describe --output js", "jsonl", "yaml"),
        ("mutation-quota maintain d", "dead_letters", "quota_changes"),
        ("mutation-quota config show quota.w", "quota.window_num", "kafka"),
        ("mutation-quota quotas alter --add-config shadow=true,max", "shadow=true,max_debt_ms=", "controller"),
        ("mutation-quota quotas alter --delete-config controller_mutation_b", "controller_mutation_burst", "="),
        ("mutation-quota status --set topics.part", "topics.partitions=", "topics.quotas="),
    ],
)
def test_commands_options_and_values_are_completed(shell, line, expected, other):
    found = completed(shell, line, len(line.split()) - 1)
    assert expected in found
    assert other not in found
