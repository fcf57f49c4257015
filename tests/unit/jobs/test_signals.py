"""Ctrl-C and SIGTERM in a command, from its first import on.

Programs sleep for a minute in short pieces: a signal that comes just before the system call does not end its sleep.
"""

import signal
import subprocess
import sys

import pytest

STARTING = """
import sys
import time

class Slow:
    def find_spec(self, name, *_):
        if name == "jobs.installation":
            print("ready", flush=True)
            any(time.sleep(0.05) for _ in range(1200))

sys.meta_path.insert(0, Slow())
from jobs.__main__ import main
"""
WORKING = """
import time
from jobs.signals import exit_interrupted
try:
    print("ready", flush=True)
    any(time.sleep(0.05) for _ in range(1200))
except KeyboardInterrupt:
    print("cleaned up", flush=True)
    exit_interrupted()
"""
ENDING = """
import os
import signal
import time
from jobs.signals import exit_interrupted
try:
    print("ready", flush=True)
    any(time.sleep(0.05) for _ in range(1200))
except KeyboardInterrupt:
    try:
        exit_interrupted()
    finally:
        os.kill(os.getpid(), signal.SIGINT)
"""
STUCK = """
import jobs.signals
from jobs.signals import exit_interrupted, watch_interrupts
jobs.signals._GRACE_SECONDS = 0.2
from confluent_kafka.admin import AdminClient
watch_interrupts()
client = AdminClient({"bootstrap.servers": "127.0.0.1:1", "log_level": 2})
try:
    print("ready", flush=True)
    client.list_topics(timeout=60)
except KeyboardInterrupt:  # the signal came before the call
    exit_interrupted()
"""
QUERYING = """
import tempfile
from pathlib import Path
import pyarrow as pa
from jobs.audit.reader import bounded_duckdb
from jobs.signals import exit_interrupted, watch_interrupts
watch_interrupts()
tempfile.tempdir = str(Path(__file__).parent)

def batches():
    print("ready", flush=True)
    yield pa.record_batch({"n": [1]})

def query():
    with bounded_duckdb() as db:
        db.register("few", pa.RecordBatchReader.from_batches(pa.schema([("n", pa.int64())]), batches()))
        rows = db.sql("FROM few, range(1_000_000) a, range(1_000_000) b WHERE hash(n * a.range * b.range) = 1")
        HOW

try:
    query()
except KeyboardInterrupt:
    exit_interrupted()
"""
"""A command that queries a temporary database for hours."""
HANDLING = """
import signal
import time
import jobs.signals
from jobs.signals import stop_signals, watch_interrupts
jobs.signals._GRACE_SECONDS = 0.2
watch_interrupts()
with stop_signals() as stop:
    print("ready", flush=True)
    stop.wait(60)
time.sleep(0.6)
print("done", flush=True)
"""
"""A service, which takes some time to stop by itself."""
WAITING = """
import os
import signal
from jobs.signals import stop_signals
with stop_signals() as stop:
    with stop._cond:
        os.kill(os.getpid(), signal.SIGTERM)
    print(stop.wait(20), flush=True)
"""
"""A service that gets the signal while `wait` holds the lock of its event."""
SWALLOWING = """
import time
from jobs.signals import exit_interrupted, watch_interrupts

class Held:
    def __del__(self):
        print("ready", flush=True)
        any(time.sleep(0.05) for _ in range(1200))

watch_interrupts()
try:
    Held()
    any(time.sleep(0.05) for _ in range(1200))
except KeyboardInterrupt:
    exit_interrupted()
"""


def interrupt(tmp_path, code, how):
    """Run code until it is ready, send the signal, and return the exit code and the output."""
    (tmp_path / "program.py").write_text(code)
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen([sys.executable, tmp_path / "program.py"], text=True, **pipes) as program:
        assert program.stdout.readline() == "ready\n"
        program.send_signal(how)
        output, errors = program.communicate(timeout=30)
    return program.returncode, output, errors


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize(
    ("code", "printed"),
    [(STARTING, ""), (WORKING, "cleaned up\n"), (STUCK, "")],
    ids=[
        "an import at the start of the program",
        "a command cleans up",
        "a call into a library, which does not return for a minute",
    ],
)
def test_a_signal_ends_a_command_silently(tmp_path, code, printed, how):
    assert interrupt(tmp_path, code, how) == (130, printed, "")


@pytest.mark.parametrize(
    "code",
    [
        pytest.param(ENDING, id="a second signal at the end"),
        pytest.param(
            SWALLOWING, id="a destructor or a hook of a fork, where Python prints the exception and continues"
        ),
    ],
)
def test_a_command_ends_silently_whenever_it_is_interrupted(tmp_path, code):
    assert interrupt(tmp_path, code, signal.SIGINT) == (130, "", "")


@pytest.mark.parametrize("how", ["rows.fetchall()", "next(rows.to_arrow_reader(1))"])
def test_a_query_is_cancelled_and_its_temporary_folder_removed(tmp_path, how):
    """DuckDB calls the handler in some of its functions, whose error hides the interrupt, and in others never."""
    assert interrupt(tmp_path, QUERYING.replace("HOW", how), signal.SIGINT) == (130, "", "")
    assert [path.name for path in tmp_path.iterdir()] == ["program.py"]


def test_a_handler_of_a_service_is_unchanged(tmp_path):
    assert interrupt(tmp_path, HANDLING, signal.SIGINT) == (0, "done\n", "")


def test_a_signal_at_any_time_of_a_wait_stops_a_service():
    done = subprocess.run([sys.executable, "-c", WAITING], capture_output=True, text=True, timeout=40, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "True\n", "")
