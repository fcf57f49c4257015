"""The log: its level, the origin of an error, and each event as one line of JSON.

Tests of the process's own log use separate processes, since a log is configured until exit.
"""

import json
import logging
import os
import pty
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from unittest.mock import Mock

import pytest

from jobs.log_lines import JsonFormatter, log_verbosely, start_log
from jobs.spark.failures import QueryFailed
from tests.support.programs import command_line, run

NOON = 1_795_435_200.5
"""2026-11-23, half a second after noon (UTC)."""


def formatted(message="said", *args, level=logging.INFO, error=None, context=dict, **extra):
    record = logging.LogRecord("jobs.x", level, "x.py", 1, message, args, (type(error), error, None) if error else None)
    record.created = NOON
    vars(record).update(extra)
    return JsonFormatter("enforce", context).format(record)


def test_an_event_has_its_time_level_service_logger_and_message():
    assert json.loads(formatted("%d are\n%s", 2, "known", context=lambda: {"query": "audit", "batch": 7})) == {
        "time": "2026-11-23T12:00:00.500Z",
        "level": "INFO",
        "service": "enforce",
        "logger": "jobs.x",
        "message": "2 are\nknown",
        "query": "audit",
        "batch": 7,
    }


def events(code):
    """Return the events on the standard error of a program that logs as JSON; nothing else may be there."""
    head = "import logging, sys, threading, warnings\nfrom jobs.log_lines import log_as_json\nlog_as_json('audit')\n"
    done = subprocess.run([sys.executable, "-c", head + code], capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stderr.splitlines()]


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("warnings.warn('beware')", [("WARN", "py.warnings", "UserWarning: beware")]),
        ("logging.critical('it ends')", [("FATAL", "root", "it ends")]),
        (
            "print('one', end='', file=sys.stderr); print(' line\\n\\nand another', file=sys.stderr)",
            [("WARN", "stderr", "one line"), ("WARN", "stderr", "and another")],
        ),
    ],
    ids=["a warning of Python", "a level that the JVM names differently", "lines that libraries print"],
)
def test_what_a_program_says_is_an_event(code, expected):
    said = [(event["level"], event["logger"], event["message"].strip()) for event in events(code)]
    assert [(*head, message.rpartition("<string>:4: ")[2]) for *head, message in said] == expected


def test_an_exception_that_ends_a_thread_is_an_event():
    (event,) = events("t = threading.Thread(target=lambda: 1 / 0, name='feed'); t.start(); t.join()")
    assert (event["level"], event["error"]) == ("ERROR", "ZeroDivisionError")
    assert event["message"] == "the thread feed has failed: division by zero"
    assert event["trace"].startswith("Traceback (most recent call last):\n")  # and yet the event is one line


def test_parts_of_a_line_are_not_mixed_with_what_another_thread_prints():
    other = "t = threading.Thread(target=print, args=('two',), kwargs={'file': sys.stderr}); t.start(); t.join()"
    printed = events(f"print('one', end='', file=sys.stderr); {other}; print(' line', file=sys.stderr)")
    assert [event["message"] for event in printed] == ["two", "one line"]


def test_a_reconfigured_log_uses_the_new_name():
    (event,) = events("log_as_json('enforce'); print('x', file=sys.stderr)")
    assert event["service"] == "enforce"


def test_a_standard_error_that_takes_no_lines_fails_nobody():
    head = "import logging, os\nfrom jobs.log_lines import log_as_json\nlog_as_json('audit')\n"
    code = head + "logging.warning('lost'); print('continues', flush=True); os._exit(0)"
    with Path("/dev/full").open("w") as full:
        done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=full, text=True, check=True)
    assert done.stdout == "continues\n"


def test_a_record_that_cannot_be_formatted_is_reported():
    printed = events("logging.warning('%d', 'no number')")
    assert {event["logger"] for event in printed} == {"stderr"}
    assert "TypeError: %d format: a real number is required, not str" in [event["message"] for event in printed]


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
from jobs.log_lines import start_log
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


@pytest.mark.parametrize("terminal", [True, False])
def test_a_line_of_the_log_has_no_control_characters_of_a_value(monkeypatch, capsys, terminal):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    monkeypatch.setattr(logging.getLogger("py4j"), "level", logging.WARNING)
    start_log("test")
    logging.getLogger().warning("client-id %s\n\tat Line", "a\x1b[31m\x9b")
    assert capsys.readouterr().err == "client-id a\\x1b[31m\\x9b\n\tat Line\n"
    assert r"a\u001b\u009b" in formatted("a\x1b\x9b")


@pytest.mark.parametrize(("options", "traced"), [(["-v"], True), ([], False)])
def test_a_detailed_log_shows_the_origin_of_an_error(options, traced):
    done = run(*options, *UNREACHABLE)
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
    if verbose:
        log_verbosely()
    assert os.environ["RUST_LOG"] == level
