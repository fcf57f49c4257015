"""Python workers, each in a separate process, since their preparation lasts until they end."""

import json
import os
import subprocess
import sys

import pytest

from jobs.spark.log_lines import SERVICE_VARIABLE
from jobs.spark.worker import MEMORY_VARIABLE

_LIMIT = 8 * 1024**3


@pytest.mark.parametrize(
    ("variables", "printed"),
    [({}, "False True False"), ({MEMORY_VARIABLE: str(_LIMIT)}, "True False True")],
    ids=["another process", "a worker"],
)
def test_only_a_worker_is_prepared_and_its_memory_bounded(variables, printed):
    prepared = "gc.get_freeze_count() > 0, os._exit is _exit, resource.getrlimit(resource.RLIMIT_AS)[0] == 8 * 1024**3"
    assert _run(f"prepare_worker('stage'); print({prepared})", variables) == printed


def test_a_worker_freezes_the_modules_of_each_stage_and_repeats_nothing():
    code = """
def frozen(stage, module=None):
    more = [[] for _ in range(1000)] if module is None else __import__(module)
    prepare_worker(stage)
    return gc.get_freeze_count(), more

first = frozen("resolve")
second = frozen("decide", "email.message")
again = frozen("decide")
print(0 < first[0] < second[0], again[0] <= second[0])
"""
    assert _run(code, {MEMORY_VARIABLE: str(_LIMIT)}) == "True True"


def test_a_worker_logs_as_json_if_the_service_does():
    code = """
import json, logging, sys
sys.stderr = sys.stdout
prepare_worker('stage')
logging.getLogger('quota.x').warning('beware of %d', 1)
"""
    found = json.loads(_run(code, {MEMORY_VARIABLE: str(_LIMIT), SERVICE_VARIABLE: "enforce"}))

    assert (found["service"], found["level"], found["message"]) == ("enforce", "WARN", "beware of 1")
    assert not found.keys() & {"query", "batch"}  # there is no task


def _run(code, variables=None):
    head = "import gc, os, resource\n_exit = os._exit\nfrom jobs.spark.worker import prepare_worker\n"
    done = subprocess.run(
        [sys.executable, "-c", head + code],
        env=os.environ | (variables or {}),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


DAEMON = """
import socket
import sys
from pyspark import daemon
from jobs.spark import worker

class Main:
    @staticmethod
    def main(_infile, outfile):
        outfile.write(b"rows")
        {failing}

sys.argv[1:] = ["pyspark_rows"]
sys.modules["pyspark_rows"] = Main
daemon.print = worker.print_unless_disconnected
ours, jvm = socket.socketpair()
jvm.close()
print(daemon.worker(ours, authenticated=True))
"""
"""PySpark's own daemon with a stage that writes rows, to a JVM that has closed its socket."""


def test_a_worker_whose_query_was_stopped_leaves_no_trace_in_the_log():
    program = DAEMON.format(failing="raise SystemExit(0)")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("0\n", "")


def test_a_worker_that_fails_for_another_reason_logs_its_trace():
    program = DAEMON.format(failing="outfile.flush = None")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert "PySpark daemon failed to flush the output" in done.stderr
