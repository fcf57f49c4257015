"""The amount of logging, and the origin of an error."""

import json
import os
import pty
import subprocess
import sys
from contextlib import suppress
from unittest.mock import Mock

import pytest

from jobs.cli.log import set_verbose, start_log
from jobs.spark.failures import QueryFailed
from tests.support.programs import command_line, run

UNREACHABLE = ["quotas", "describe", "--bootstrap-server", "127.0.0.1:1", "--set", "kafka.timeout_seconds=0.1"]


def test_a_json_error_is_an_event_and_with_debug_has_its_origin():
    done = run("-v", *UNREACHABLE, "--set", "logging.format=json")
    assert json.loads(done.stderr.splitlines()[-1])["trace"].startswith("Traceback (most recent call last):")
    done = run(*UNREACHABLE, "--set", "logging.format=json")
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    event = json.loads(done.stderr)
    assert event["message"].startswith("cannot read the quotas in topic mutation-quotas")
    assert (event["level"], event["service"], event["error"]) == ("ERROR", "quotas describe", "ClusterError")
    assert "trace" not in event


def test_as_json_the_error_of_a_query_has_its_name_and_its_batch(monkeypatch):
    monkeypatch.setenv("MUTATION_QUOTA__LOGGING__FORMAT", "json")
    monkeypatch.setattr("jobs.cli.program.app", Mock(side_effect=QueryFailed("audit", "no space", batch=0)))
    done = run("audit")
    event = json.loads(done.stderr)
    assert done.returncode == 1
    assert (event["message"], event["query"], event["batch"]) == ("audit failed: no space", "audit", 0)


def test_an_error_in_the_settings_is_an_event_if_the_environment_says_json(monkeypatch):
    monkeypatch.setenv("MUTATION_QUOTA__LOGGING__FORMAT", "json")
    done = run("quotas", "describe", "--set", "nothing.like=this")
    assert done.returncode == 2
    event = json.loads(done.stderr)
    assert (event["service"], event["error"]) == ("mutation-quota", "BadInput")


def read_to_end(terminal):
    """Return all that was written to a terminal; reading after its end is an error."""
    read = b""
    with os.fdopen(terminal, "rb", buffering=0) as file, suppress(OSError):
        while part := file.read(4096):
            read += part
    return read.decode()


def test_as_json_a_question_on_a_terminal_is_an_event_before_its_answer(tmp_path):
    ours, terminal = pty.openpty()
    os.write(ours, b"n\n")
    options = ("--set", "logging.format=json", "--set", f"storage.root={tmp_path}")
    asking = command_line("enforce", "--reset-state", *options)
    done = subprocess.run(asking, stdin=terminal, stdout=subprocess.DEVNULL, stderr=terminal, timeout=60, check=False)
    os.close(terminal)
    lines = read_to_end(ours).splitlines()
    question, rejection = [json.loads(line)["message"] for line in lines if line.startswith("{")]
    assert done.returncode == 1
    assert question.startswith(f"Discard the state in {tmp_path}, ")
    assert question.endswith("? [y/N]:")
    assert rejection == "nothing was changed"


LOGS_DURING_A_LIVE_DISPLAY = """
import io, logging, sys
from jobs.cli.log import start_log
start_log("test")
sys.stderr = io.StringIO()  # as a live display does
logging.info("a line")
print(sys.stderr.getvalue(), end="")
"""


def test_on_a_terminal_a_live_display_gets_the_lines_of_the_log():
    ours, terminal = pty.openpty()
    python = [sys.executable, "-c", LOGS_DURING_A_LIVE_DISPLAY]
    done = subprocess.run(python, stdout=subprocess.PIPE, stderr=terminal, text=True, timeout=60, check=True)
    os.close(terminal)
    assert (done.stdout, read_to_end(ours)) == ("a line\n", "")


@pytest.mark.parametrize(
    ("level", "options", "traced"),
    [("debug", [], True), ("error", ["-v"], True), ("error", [], False)],
)
def test_an_option_overrides_the_level_of_the_settings_and_debug_shows_the_origin_of_an_error(level, options, traced):
    done = run(*options, *UNREACHABLE, "--set", f"logging.level={level}")
    assert ("Traceback" in done.stderr) == traced
    assert done.stderr.splitlines()[-1].startswith("mutation-quota: cannot read ")


@pytest.mark.parametrize(
    ("given", "verbose", "level"), [(None, False, "error"), (None, True, "warn"), ("trace", True, "trace")]
)
def test_deltalake_logs_only_errors_by_default(monkeypatch, given, verbose, level):
    """Without credentials its warnings fill pages before the error that says so."""
    monkeypatch.setenv("RUST_LOG", given or "")
    if given is None:
        monkeypatch.delenv("RUST_LOG")
    monkeypatch.setattr("logging.Logger.setLevel", lambda *_: None)
    start_log("test")
    set_verbose(verbose=verbose)
    assert os.environ["RUST_LOG"] == level
