"""Completion in shells, by the protocol that the installed scripts speak."""

import os
import shlex
import subprocess
from unittest import mock

import pytest

from tests.support.programs import command_line, run


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
        ("mutation-quota quotas des", "describe", "resolve"),
        ("mutation-quota quotas describe --out", "--output", "--user"),
        ("mutation-quota quotas describe --output js", "jsonl", "yaml"),
        ("mutation-quota maintain d", "dead_letters", "quota_changes"),
        ("mutation-quota config show quota.w", "quota.window_num", "kafka"),
        ("mutation-quota config show quo", "quota", "topics"),
        ("mutation-quota quotas alter --add-config max", "max_debt_ms=", "controller_mutation_rate"),
        ("mutation-quota quotas alter --add-config shadow=true,max", "shadow=true,max_debt_ms=", "controller"),
        ("mutation-quota quotas alter --delete-config controller_mutation_b", "controller_mutation_burst", "="),
        ("mutation-quota status --set topics.part", "topics.partitions=", "topics.quotas="),
    ],
)
def test_commands_options_and_values_are_completed(shell, line, expected, other):
    found = completed(shell, line, len(line.split()) - 1)
    assert expected in found
    assert other not in found


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_for_a_shell_is_printed(shell):
    done = run("completion", shell)
    assert (done.returncode, done.stderr) == (0, "")
    assert f"_MUTATION_QUOTA_COMPLETE=complete_{shell}" in done.stdout


def test_the_script_for_zsh_can_be_a_function_file():
    assert run("completion", "zsh").stdout.startswith("#compdef mutation-quota\n")


def test_bash_completes_lines_after_it_has_run_the_script(tmp_path):
    program = tmp_path / "mutation-quota"
    program.write_text(f'#!/bin/sh\nexec {shlex.join(command_line())} "$@"\n')
    program.chmod(0o755)
    lines = {
        "mutation-quota quo": ["quotas"],
        "mutation-quota quotas describe --output js": ["json", "jsonl"],
        "mutation-quota quotas alter --add-config ''": [
            "controller_mutation_rate=",
            "controller_mutation_burst=",
            "max_debt_ms=",
            "shadow=",
        ],
    }
    script = ['eval "$(mutation-quota completion bash)"']
    for line in lines:
        script.append(f"COMP_WORDS=({line}); COMP_CWORD={len(line.split()) - 1}")
        script.append('_mutation_quota_completion mutation-quota; echo "${COMPREPLY[@]}"')
    environment = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "-c", "\n".join(script)], env=environment, capture_output=True, text=True, check=True
    )
    assert [line.split() for line in done.stdout.splitlines()] == list(lines.values())


def test_another_shell_is_rejected():
    done = run("completion", "tcsh")
    assert (done.returncode, done.stderr) == (2, "mutation-quota: SHELL tcsh: expected bash, zsh or fish\n")


def test_the_script_completes_one_command():
    """Typer's option prints the script of the shell that it detects, whichever is named."""
    assert "--show-completion" not in run("--help").stdout
    assert run("--show-completion").returncode == 2
