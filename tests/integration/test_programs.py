"""The programs as a person starts and ends them."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time

import pytest

from jobs.deployment import claim_storage
from jobs.files import Files
from quota.errors import MutationQuotaError

DEADLINE_SECONDS = 240


@pytest.fixture
def program(tmp_path):
    """Start the program in a folder of its own; whatever is left at the end is killed, and that is a failure."""
    started = []

    def _start(*args):
        command = [sys.executable, "-u", "-c", "from jobs.cli import main; main()", *args]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("KAFKA_")}
        process = subprocess.Popen(
            command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        started.append(process)
        return process

    yield _start
    for process in started:
        if process.poll() is None:
            process.kill()


def read_until(process, pattern):
    """Read what a program prints up to a line with `pattern`."""
    watchdog = threading.Timer(DEADLINE_SECONDS, process.kill)
    watchdog.start()
    lines = []
    for line in process.stdout:
        lines.append(line)
        if re.search(pattern, line):
            watchdog.cancel()
            return
    pytest.fail(f"no {pattern} in {''.join(lines)}")


def java_processes(folder):
    """Processes of Java that have to do with a folder."""
    found = subprocess.run(["pgrep", "-f", f"java.*{folder}"], capture_output=True, text=True, check=False)
    return found.stdout.split()


def test_the_demo_ends_by_itself_and_finds_all_as_kip_599_says(program):
    process = program("demo")
    output, _ = process.communicate(timeout=DEADLINE_SECONDS)
    assert process.returncode == 0, output
    assert "all of it as KIP-599 says" in output


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_the_broker_says_when_it_is_ready_and_leaves_nothing_behind(program, tmp_path, how):
    process = program("broker", "--port", "0", "--data", str(tmp_path / "data"))
    read_until(process, r"^ready 127\.0\.0\.1:\d+$")
    assert java_processes(tmp_path)
    process.send_signal(how)
    assert process.wait(DEADLINE_SECONDS) == 0
    assert not java_processes(tmp_path)


def test_the_whole_run_decides_and_ends_cleanly(program, tmp_path):
    """With the default root, a folder of where it is started."""
    process = program("run", "--set", "audit.trigger_seconds=2")
    read_until(process, r"topics: [1-9]\d* admitted")
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not list((tmp_path / ".data" / "tables" / "decisions").glob("date=*/*.parquet")):
        assert time.monotonic() < deadline
        time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    assert process.wait(DEADLINE_SECONDS) == 0
    assert not java_processes(tmp_path)


def test_a_storage_root_belongs_to_its_topics(spark, deployment):
    """Checkpoints and tables of another log of the same name would lose requests."""
    files = Files(spark, deployment)
    claim_storage(files, deployment, {"requests": "A"})
    claim_storage(files, deployment, {"requests": "A", "decisions": "B"})
    claim_storage(files, deployment, {"decisions": "B"})
    with pytest.raises(MutationQuotaError, match=r"topic decisions is not the one that .* was begun with"):
        claim_storage(files, deployment, {"requests": "A", "decisions": "C"})


def test_a_storage_root_is_claimed_at_once_or_not_at_all(spark, deployment, tmp_path):
    """A kill in between must leave what was there, for the next start to read: the file is replaced, not rewritten."""
    files = Files(spark, deployment)
    claim_storage(files, deployment, {"requests": "A"})
    claimed, first = tmp_path / "deployment.json", tmp_path / "first.json"
    first.hardlink_to(claimed)
    before = first.read_bytes()
    claim_storage(files, deployment, {"decisions": "B"})
    assert first.read_bytes() == before
    assert json.loads(claimed.read_text())["topics"] == {"requests": "A", "decisions": "B"}
