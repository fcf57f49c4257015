"""The project's commands as processes, and the processes that they start."""

import json
import random
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path

from jsonschema import Draft202012Validator

from schemas.command_schemas import DOCUMENTS
from schemas.json_schemas import schema_file
from tests.support.deployment import as_options

JVM_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""A JVM that exits within minutes gains nothing from the second compiler; without it, a start takes half the work."""

SPARK_ENVIRONMENT = {"SPARK_SUBMIT_OPTS": JVM_OPTIONS}
"""Environment of a process that starts Spark; unlike JAVA_TOOL_OPTIONS it is not reported on standard error."""


_DATA_PRINTED = {0, 3}
"""Exit codes of commands that have printed their data."""


def command_line(*args):
    """Return the command line of `mutation-quota` with these arguments."""
    return [sys.executable, "-m", "jobs", *args]


def check_output(args, output):
    """Check the JSON that a command has printed by the schema of its output."""
    words = [*args, *map("-".join, pairwise(args))]
    (name,) = [each for each in words if each in DOCUMENTS]
    if name == "observe-import" and "--output-file" not in args:
        return  # standard output has the requests
    schema = json.loads(schema_file(f"output/{name}").read_text())
    Draft202012Validator(schema).validate(json.loads(output))


def run(*args, cwd=None):
    """Run a command to its end, and return the completed process with its output as text.

    The output of `--json` must conform to the command's schema.
    """
    done = subprocess.run(command_line(*args), capture_output=True, text=True, cwd=cwd, check=False)
    if "--json" in args and done.returncode in _DATA_PRINTED:
        check_output(args, done.stdout)
    return done


@contextmanager
def running_applier(settings, kills=0, between=(0.5, 2.5), seed=599):
    """Run an applier inside the block, killed `kills` times at random moments; at the end it terminates cleanly.

    Args:
        settings: The deployment.
        kills: Number of kills by SIGKILL, each followed by a new start.
        between: Shortest and longest time from a start to its kill, seconds.
        seed: Seed of these times.
    """
    rng = random.Random(seed)
    process = _start_applier(settings)

    def kill():
        nonlocal process
        for _ in range(kills):
            time.sleep(rng.uniform(*between))
            process.kill()
            process.communicate()
            process = _start_applier(settings)

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        yield
    finally:
        killer.join()
        process.send_signal(signal.SIGTERM)
        try:
            _, output = process.communicate(timeout=60)
        finally:
            process.kill()
        assert process.returncode == 0, output


def _start_applier(settings):
    return subprocess.Popen(command_line("applier", *as_options(settings)), stderr=subprocess.PIPE)


def child_processes(parent):
    """Return the process ids of the children of a process."""
    found = []
    for each in Path("/proc").iterdir():
        with suppress(OSError, ValueError):
            if int(_stat(int(each.name))[1]) == parent:
                found.append(int(each.name))
    return found


def command_words(pid):
    """Return the command line of a process as words; none if it has exited, even if its parent has not noticed yet."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_text().split("\0")[:-1]
    return []


def thread_states(pid):
    """Return the state letters of all threads of a process; none if there is no such process."""
    states = set()
    with suppress(OSError):
        for each in Path(f"/proc/{pid}/task").iterdir():
            with suppress(OSError):
                states.add(each.joinpath("stat").read_text().rpartition(")")[2].split()[0])
    return states


def process_state(pid):
    """Return the state letter of a process as in /proc; None if there is no such process."""
    try:
        return _stat(pid)[0]
    except OSError:
        return None


def _stat(pid):
    """Return state, parent and so on: the fields after the name, which may contain any character."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
