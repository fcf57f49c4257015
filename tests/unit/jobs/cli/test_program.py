"""The command line as a whole: its start, its help, and the completion of its commands."""

import errno
import os
import re
import shlex
import subprocess
import sys
from contextlib import nullcontext
from functools import cache
from pathlib import Path
from unittest import mock

import pytest
from typer import TyperException
from typer.main import get_command

from jobs.cli.program import app, main
from tests.support.programs import command_line, run


@pytest.mark.parametrize("group", [[], ["quotas"], ["user-topics"]])
def test_a_group_without_a_command_prints_its_help_and_exits_2(group):
    done = run(*group)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.strip().startswith(f"Usage: {' '.join(['mutation-quota', *group])} [OPTIONS] COMMAND")


def test_the_help_of_the_program_has_every_command_and_the_exit_codes():
    lines = run("--help").stdout.splitlines()
    listed = {line.split()[1] for line in lines if line.startswith("│ ")}
    assert listed >= set(get_command(app).commands)
    assert "4: nothing found: what the command names or selects does not exist" in [line.strip() for line in lines]


def test_parsing_needs_neither_spark_nor_kafka_nor_arrow():
    """Their imports would more than double the time that `--help` takes."""
    program = "import sys, jobs.cli.program; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    heavy = {"confluent_kafka", "deltalake", "duckdb", "pandas", "prometheus_client", "pyarrow", "pyspark", "rich"}
    assert {"typer", *heavy} & set(done.stdout.split()) == {"typer"}


def test_the_installed_program_exits_with_the_code_of_its_error_and_names_it_in_a_line():
    """As `run` says of the same command in this process."""
    program = Path(sys.executable).with_name("mutation-quota")
    args = ("config", "describe", "nothing.here")
    done = subprocess.run([program, *args], capture_output=True, text=True, check=False)
    same = run(*args)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (4, "", 1)
    assert (same.returncode, same.stdout, same.stderr) == (done.returncode, done.stdout, done.stderr)


def test_control_characters_of_an_argument_are_escaped_in_its_error():
    done = run("config", "describe", "caf\u00e9\x1b[31m\u202e")
    expected = "caf\u00e9\\x1b[31m\\u202e: no such setting or section is in force; `config describe` lists all"
    assert (done.returncode, done.stderr) == (4, f"mutation-quota: {expected}\n")


@pytest.mark.parametrize(("closed", "printed"), [("<&-", True), ("<&- >&- 2>&-", False)])
def test_a_command_runs_although_a_standard_stream_is_closed(closed, printed):
    line = f"{shlex.join(command_line('config', 'describe', 'topics'))} {closed}"
    done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr, "topics.partitions" in done.stdout) == (0, "", printed)


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (OSError("AF_UNIX path too long"), "input or output: AF_UNIX path too long"),
        (
            FileNotFoundError(errno.ENOENT, "No such file or directory", "quotas.yaml"),
            "quotas.yaml: No such file or directory",
        ),
    ],
)
def test_a_system_error_is_named_even_if_a_library_gives_only_a_text(error, line, monkeypatch, capsys):
    def fail(**_):
        raise error

    monkeypatch.setattr("jobs.cli.program.app", fail)
    monkeypatch.setattr("jobs.cli.program.watch_interrupts", lambda: None)
    with pytest.raises(SystemExit) as exited:
        main()
    assert exited.value.code == 1
    assert capsys.readouterr().err == f"mutation-quota: {line}\n"


def test_the_versions_are_printed_line_by_line_without_java_or_the_imports_of_commands():
    program = "import sys; from jobs.__main__ import main; main(); print('typer', 'typer' in sys.modules)"
    environment = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"} | {"PATH": "/nowhere"}
    command = [sys.executable, "-c", program, "--version"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    *lines, imported = done.stdout.splitlines(keepends=True)
    assert (run("-v", "--version").stdout, imported) == ("".join(lines), "typer False\n")
    shown = dict(line.split(maxsplit=1) for line in lines)
    assert list(shown) == ["mutation-quota", "Python", "Spark", "Delta", "Kafka", "confluent-kafka", "state", "tables"]
    for name in ("mutation-quota", "Python", "Spark", "Delta", "confluent-kafka"):
        assert re.match(r"\d+\.\d+", shown[name])
    release = r"\d+\.\d+\.\d+"
    kafka = rf"{release} \(gateway\), {release} \(broker\), {release} \(Spark's client\)"
    assert re.fullmatch(kafka, shown["Kafka"].strip())
    assert shown["state"].strip().isdigit()
    assert re.fullmatch(r"(\w+ \d+, )+quota_changes \d+", shown["tables"].strip())


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
        ("mutation-quota status --set topics.part", "topics.partitions=", "topics.quotas="),
    ],
)
def test_commands_options_and_values_are_completed(shell, line, expected, other):
    completions = completed(shell, line, len(line.split()) - 1)
    assert expected in completions
    assert other not in completions


ROOT = get_command(app)


def leaves(command=ROOT, words=()):
    """Yield each command that is not a group, with its words."""
    for name, subcommand in getattr(command, "commands", {}).items():
        yield from leaves(subcommand, (*words, name))
    if not hasattr(command, "commands"):
        yield words, command


COMMANDS = dict(leaves())
WITHOUT_KAFKA = {
    ("backtest",),  # reads the tables or files, as the next ten
    ("buckets", "export"),
    ("buckets", "list"),
    ("decisions", "list"),
    ("decisions", "top"),
    ("explain",),
    ("maintain",),
    ("observe", "import"),
    ("recommend",),
    ("report",),
    ("simulate",),
    ("quotas", "validate"),
    ("broker",),  # starts its own broker, as the next one
    ("demo",),
}
"""The commands that connect to no cluster."""
EACH_COMMAND = pytest.mark.parametrize("words", sorted(COMMANDS), ids=" ".join)


@pytest.mark.parametrize("words", [(), *COMMANDS], ids=" ".join)
def test_the_help_has_whole_words_in_80_columns(words, monkeypatch):
    """A name that is cut cannot be copied."""
    monkeypatch.setattr("typer.rich_utils.MAX_WIDTH", 80)
    shown = run(*words, "--help").stdout
    assert max(map(len, shown.splitlines())) == 80
    assert "…" not in shown


@cache
def examples(words):
    """Return the arguments of the examples in a command's help."""
    _, _, text = (COMMANDS[words].epilog or "").partition("Examples:\n\n")
    shown = " ".join(run(*words, "--help").stdout.split())
    given = []
    for example in text.split("\n\n"):
        program, *args = shlex.split(example)
        assert (program, *args[: len(words)]) == ("mutation-quota", *words)
        assert example in shown
        given.append(args[len(words) :])
    return given


def parsed(words, *args):
    """Return the parameters of a command with these arguments; it is not run."""
    return COMMANDS[words].make_context(words[-1], [*args]).params


@EACH_COMMAND
def test_the_examples_and_the_common_options_after_them_are_understood_by_the_parser(words):
    for args in examples(words):
        given = parsed(words, *args, "--set", "topics.partitions=3", "--settings", "own.toml", "-v")
        assert given["overrides"][-1] == "topics.partitions=3"
        assert (given["settings_file"], given["verbose"]) == (Path("own.toml"), True)


@EACH_COMMAND
@pytest.mark.parametrize("option", ["--bootstrap-server", "--command-config"])
def test_a_command_that_connects_to_kafka_takes_the_options_to_connect_and_no_other_does(words, option):
    """`config describe` takes them, too: it checks how another command would connect."""
    args = next(args for args in examples(words) if option not in args)
    with pytest.raises(TyperException, match="No such option") if words in WITHOUT_KAFKA else nullcontext():
        assert "given" in map(str, parsed(words, *args, option, "given").values())
