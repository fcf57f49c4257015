"""Ctrl-C and SIGTERM in a command, from its first import on."""

import signal
import subprocess
import sys

import pytest

IMPORTING = """
import jobs.services.interrupts
import slow_module
"""
SLOW_MODULE = """
import time
print("ready", flush=True)
time.sleep(60)
"""
WORKING = """
import time
from jobs.services.interrupts import exit_interrupted
try:
    print("ready", flush=True)
    time.sleep(60)
except KeyboardInterrupt:
    print("cleaned up", flush=True)
    exit_interrupted()
"""
ENDING = """
import os
import signal
import time
from jobs.services.interrupts import exit_interrupted
try:
    print("ready", flush=True)
    time.sleep(60)
except KeyboardInterrupt:
    try:
        exit_interrupted()
    finally:
        os.kill(os.getpid(), signal.SIGINT)
"""


def interrupt(tmp_path, code, how):
    """Run code until it says that it is ready, send the signal, and return the exit code and what it has written."""
    (tmp_path / "slow_module.py").write_text(SLOW_MODULE)
    (tmp_path / "program.py").write_text(code)
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen([sys.executable, tmp_path / "program.py"], text=True, **pipes) as program:
        assert program.stdout.readline() == "ready\n"
        program.send_signal(how)
        output, errors = program.communicate(timeout=60)
    return program.returncode, output, errors


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_an_import_is_broken_off_silently(tmp_path, how):
    assert interrupt(tmp_path, IMPORTING, how) == (130, "", "")


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_a_command_cleans_up(tmp_path, how):
    assert interrupt(tmp_path, WORKING, how) == (130, "cleaned up\n", "")


def test_a_second_signal_does_not_disturb_the_end(tmp_path):
    assert interrupt(tmp_path, ENDING, signal.SIGINT) == (130, "", "")
