"""Python workers, each in a separate process, since their preparation lasts until they end."""

import json
import os
import socket
import struct
import subprocess
import sys

import pytest

from jobs.log_lines import SERVICE_VARIABLE
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
    event = json.loads(_run(code, {MEMORY_VARIABLE: str(_LIMIT), SERVICE_VARIABLE: "enforce"}))

    assert (event["service"], event["level"], event["message"]) == ("enforce", "WARN", "beware of 1")
    assert not event.keys() & {"query", "batch"}  # there is no task


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
import signal
import sys
import traceback
from contextlib import suppress
from pyspark import daemon
from jobs.spark import worker

class Main:
    @staticmethod
    def main(infile, outfile):
        signal.pthread_sigmask(signal.SIG_BLOCK, {{signal.SIGHUP}})
        outfile.write(b"begun")
        outfile.flush()
        with suppress(ConnectionResetError):
            infile.read(1)
        outfile.write(b"rows")
        {failing}

sys.argv[1:] = ["pyspark_rows"]
sys.modules["pyspark_rows"] = Main
traceback.print_exc = worker.print_exc_unless_disconnected
daemon.manager()
"""
"""PySpark's own daemon with a stage that writes rows when the JVM has closed its socket."""


def trace_of_a_stopped_worker(failing):
    """Run the daemon as Spark does, close the socket of a worker, and return what was logged."""
    variables = {"SPARK_REUSE_WORKER": "1", "PYTHON_DAEMON_KILL_WORKER_ON_FLUSH_FAILURE": "1"}
    with subprocess.Popen(
        [sys.executable, "-c", DAEMON.format(failing=failing)],
        env=os.environ | variables | {"PYTHON_WORKER_FACTORY_SECRET": "secret"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as daemon:
        port = int.from_bytes(daemon.stdout.read(4))
        with socket.create_connection(("127.0.0.1", port)) as jvm:
            jvm.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # closed with data unread
            jvm.recv(4, socket.MSG_WAITALL)  # the worker's process id
            jvm.sendall(struct.pack(">i", 6) + b"secret")
            jvm.recv(11, socket.MSG_WAITALL)  # the length of ok, ok, and begun
        daemon.stdin.close()
        return daemon.stderr.read().decode()  # until the worker has ended, too


def test_a_worker_whose_query_was_stopped_leaves_no_trace_in_the_log():
    assert trace_of_a_stopped_worker("raise SystemExit(0)") == ""


def test_a_worker_that_fails_for_another_reason_logs_its_trace():
    assert "TypeError: 'NoneType' object is not callable" in trace_of_a_stopped_worker("outfile.flush = None")
