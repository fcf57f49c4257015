"""Ctrl-C and SIGTERM at any time of a command that starts Spark: nothing is printed, and no process is left.

Two moments are tried with each change, and each half second of a start at night; `test_programs.py` interrupts a job
at work.
"""

import os
import re
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from quota.kafka.topics.preparation import prepare_topics
from tests.integration.jobs.marked import Mark
from tests.support.deployment import as_options
from tests.support.programs import command_line
from tests.support.waiting import until

STEP_SECONDS = 0.5
DEADLINE_SECONDS = 120
KILLED_WHILE_STOPPED = """
import os, signal, sys, threading
from jobs.spark.session import jvm_pid, spark_session
from quota.settings import load_settings

with spark_session(load_settings(sys.argv[1:]), "stopped") as spark:
    jvm = jvm_pid(spark)
    os.kill(jvm, signal.SIGSTOP)  # so that it does not answer
    threading.Timer(1, os.kill, (jvm, signal.SIGKILL)).start()
"""


class Started:
    """A command, which has marked its environment, so that the processes that it starts are found."""

    def __init__(self, *args):
        self.mark = Mark()
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        self.process = subprocess.Popen(command_line(*args), text=True, env=os.environ | self.mark.variable, **pipes)
        self.began = time.monotonic()

    def interrupt(self, how):
        """Send the signal; return the exit code, all output, and the temporary folders that the JVM had."""
        folders = self.mark.temporary_folders()
        self.process.send_signal(how)
        output, errors = self.process.communicate(timeout=DEADLINE_SECONDS)
        return self.process.returncode, output + errors, folders


def interrupt_throughout(seconds, steps, done, *args):
    """Start a command repeatedly, and interrupt it at each half second of its start, or at `steps` times.

    A command that has already printed `done` was faster; while the interpreter exits, a signal may end it.
    """
    step = max(STEP_SECONDS, seconds / steps)
    moments = [step * number for number in range(1, int(seconds / step) + 1)]
    for number, moment in enumerate(moments):
        started = Started(*args)
        with suppress(subprocess.TimeoutExpired):
            started.process.wait(moment)  # the moment of the signal is what is tried here
            return  # this time it was quicker
        code, printed, folders = started.interrupt((signal.SIGINT, signal.SIGTERM)[number % 2])
        if printed.startswith(done):
            until(lambda ended=started: ended.mark.commands() == [])
            return
        assert (moment, code, printed) == (moment, 130, "")
        leaves_nothing(started, folders)


def leaves_nothing(started, folders):
    """Assert that a command has left no process and no temporary folder."""
    assert started.mark.commands() == []
    assert [folder for folder in folders if Path(folder).exists()] == []


def handles(process, number):
    """Return whether a process handles a signal."""
    (caught,) = re.findall(r"^SigCgt:\t(\w+)$", Path(f"/proc/{process.pid}/status").read_text(), re.MULTILINE)
    return int(caught, 16) >> (number - 1) & 1


def ends_silently(started, how):
    """Assert that an interrupted command prints nothing, and leaves no process and no temporary folder."""
    code, printed, folders = started.interrupt(how)
    assert (code, printed) == (130, "")
    leaves_nothing(started, folders)
    return folders


def test_a_command_that_is_interrupted_before_it_starts_a_jvm_ends_silently(tmp_path):
    """It is still importing; Python itself handles Ctrl-C before that, but not SIGTERM."""
    started = Started("buckets", "list", "--set", f"storage.root={tmp_path}")
    until(lambda: handles(started.process, signal.SIGTERM), poll_seconds=0.01)
    assert ends_silently(started, signal.SIGINT) == set()


@pytest.fixture
def job(deployment):
    """The arguments of a job with topics."""
    prepare_topics(deployment)
    return ("enforce", *as_options(deployment, f"storage.root={deployment.storage.root}"))


def test_a_job_that_is_interrupted_while_its_jvm_starts_ends_silently_and_leaves_no_jvm(job):
    started = Started(*job)
    until(started.mark.temporary_folders, poll_seconds=0.02)
    assert ends_silently(started, signal.SIGTERM)


@pytest.mark.nightly
@pytest.mark.timeout(900)
def test_a_command_that_is_interrupted_at_any_half_second_ends_silently_and_leaves_no_jvm(tmp_path):
    """The command prints only that there is nothing to list, without a warning of Java's."""
    args = ("buckets", "list", "--set", f"storage.root={tmp_path}", "--set", "spark.master=local[1]")
    whole = Started(*args)
    output, errors = whole.process.communicate(timeout=DEADLINE_SECONDS)
    seconds = time.monotonic() - whole.began
    assert (whole.process.returncode, output, errors.count("\n")) == (1, "", 1)
    assert errors.startswith("mutation-quota: there are no buckets")
    assert whole.mark.commands() == []
    interrupt_throughout(seconds, 12, errors, *args)


@pytest.mark.nightly
@pytest.mark.timeout(900)
def test_a_job_that_is_interrupted_at_any_part_of_its_start_ends_silently_and_leaves_no_jvm(job):
    whole = Started(*job)
    assert whole.process.stderr.readline() == "running: enforce\n"
    seconds = time.monotonic() - whole.began
    assert whole.interrupt(signal.SIGTERM)[:2] == (0, "")
    until(lambda: whole.mark.commands() == [])
    interrupt_throughout(seconds, 6, "running: ", *job)


@pytest.mark.nightly
def test_a_session_whose_jvm_is_killed_while_it_stops_ends_silently(tmp_path):
    """The JVM is killed as if a signal arrived at that time."""
    settings = (f"storage.root={tmp_path}", "spark.master=local[1]")
    code = [sys.executable, "-c", KILLED_WHILE_STOPPED, *settings]
    done = subprocess.run(code, capture_output=True, text=True, timeout=DEADLINE_SECONDS, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
