"""The log as JSON: each event is one line; tests use separate processes, since a log is configured until exit."""

import json
import logging
import subprocess
import sys
from pathlib import Path

import pytest

from jobs.log_lines import JsonFormatter

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
