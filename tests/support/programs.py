"""The project's commands, in this process or as processes, and the processes that they start."""

import io
import logging
import os
import random
import shlex
import signal
import subprocess
import sys
import threading
import time
import warnings
from contextlib import ExitStack, chdir, contextmanager, redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from unittest import mock

from jobs.spark.jvm import SILENT
from tests.support.checkout import CHECKOUT
from tests.support.deployment import as_options

JVM_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=128m"
"""A JVM that exits within minutes gains nothing from the second compiler; without it, a start takes half the work."""

CLASS_ARCHIVES = CHECKOUT / ".jars" / "archives"
"""The classes of JVMs, which start with two thirds of the work; `tests.support.class_archive` writes them."""

BROKER_ARCHIVE = CLASS_ARCHIVES / "broker.jsa"


def with_archive(archive):
    """Return the options of a JVM that uses an archive of its classes, if there is one."""
    return [f"-XX:SharedArchiveFile={archive}", *SILENT.split()] if archive.exists() else []


_ARCHIVED = [
    shlex.quote(option) for archive in CLASS_ARCHIVES.glob("enforce-*.jsa") for option in with_archive(archive)
]

OWN_ARCHIVE = {"SPARK_SUBMIT_OPTS": JVM_OPTIONS}
"""Environment of a job that uses or writes a class archive by its own settings."""

POLLING = "spark.sql.streaming.pollingDelay=50ms"
"""A waiting query asks the broker for new records every 10 ms by default, which takes half a core of both."""

SPARK_ENVIRONMENT = {"SPARK_SUBMIT_OPTS": " ".join([JVM_OPTIONS, f"-D{POLLING}", *_ARCHIVED])}
"""Environment of a process that starts Spark; unlike JAVA_TOOL_OPTIONS it is not reported on standard error."""


def command_line(*args, constants=None):
    """Return the command line of `mutation-quota` with these arguments.

    `constants` are values of constants of its modules, by their full names, for a test that cannot wait for its own.
    """
    if not constants:
        return [sys.executable, "-m", "jobs", *args]
    code = "import runpy, unittest.mock as mock\nfrom pathlib import PosixPath\n"
    code += "".join(f"mock.patch({name!r}, {value!r}).start()\n" for name, value in constants.items())
    return [sys.executable, "-c", f"{code}runpy.run_module('jobs', run_name='__main__', alter_sys=True)", *args]


def run(*args, cwd=None, spark=None, terminal=False):
    """Run a command to its end in this process, and return it as if it were a completed process; see `run_process`.

    With `terminal`, its streams say that they are one. It is `main` of the program, with its own arguments, streams,
    log and folder; signals, variables and warnings are afterwards as before. Only the main thread can do it, and a
    command that starts Spark needs a process of its own, or a session as `spark`, which it uses instead; its own
    settings of Spark then have no effect.
    """
    from jobs.__main__ import main  # noqa: PLC0415 it installs handlers of signals

    output, errors, code = _Stream(terminal), _Stream(terminal), 0
    with ExitStack() as stack:
        stack.enter_context(_program_state())
        if cwd:
            stack.enter_context(chdir(cwd))
        if spark:
            stack.enter_context(given_session(spark))
        stack.enter_context(redirect_stdout(output))
        stack.enter_context(redirect_stderr(errors))
        try:
            with mock.patch("sys.argv", ["mutation-quota", *args]):
                main()
        except SystemExit as exited:
            code = int(exited.code or 0)
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
    return subprocess.CompletedProcess(args, code, output.text(), errors.text())


def run_process(*args, cwd=None):
    """Run a command to its end as a process, and return the completed process with its output as text."""
    return subprocess.run(command_line(*args), capture_output=True, text=True, cwd=cwd, check=False)


class _Stream(io.TextIOWrapper):
    """A standard stream in memory, which may say that it is a terminal."""

    def __init__(self, is_terminal):
        super().__init__(io.BytesIO(), encoding="utf-8", errors="backslashreplace", write_through=True)
        self._is_terminal = is_terminal

    def isatty(self):
        return self._is_terminal

    def text(self):
        """Return what was written."""
        return self.buffer.getvalue().decode()


@contextmanager
def given_session(spark):
    """Give a session to commands that otherwise start one."""
    from jobs.spark.failures import with_operator_advice  # noqa: PLC0415 it imports Spark

    @contextmanager
    def session(settings, *_, **__):
        with with_operator_advice(settings):
            yield spark

    with (
        mock.patch("jobs.spark.session.spark_session", session),
        mock.patch("jobs.services.spark.spark_session", session),
    ):
        yield


@contextmanager
def _program_state():
    """Give the block the state of a new program, and restore what `main` changes in a process."""
    loggers = [logging.getLogger(name) for name in (None, "jobs", "quota", "py4j")]
    before = [(logger, logger.level, logger.handlers) for logger in loggers]
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    with (
        mock.patch.dict(os.environ),
        mock.patch("jobs.cli.program.watch_interrupts"),
        mock.patch("sys.stdin", io.StringIO()),
        mock.patch("threading.excepthook", threading.excepthook),
        mock.patch("warnings.formatwarning", warnings.formatwarning),
        warnings.catch_warnings(),
    ):
        for logger in loggers:
            logger.handlers = []
            logger.setLevel(logging.NOTSET)
        try:
            yield
        finally:
            logging.captureWarnings(capture=False)
            for logger, level, own in before:
                logger.setLevel(level)
                logger.handlers = own
            for number, handler in handlers.items():
                signal.signal(number, handler)


@contextmanager
def running_applier(settings, kills=0):
    """Run an applier inside the block, killed `kills` times at random moments; at the end it terminates cleanly."""
    rng = random.Random(599)
    process = _start_applier(settings)

    def kill():
        nonlocal process
        for _ in range(kills):
            time.sleep(rng.uniform(0.5, 2.5))
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


@contextmanager
def paused(pid):
    """Stop a process inside the block (SIGSTOP): its connections stay open, but it does not respond."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def child_processes(parent):
    """Return the process ids of the children of a process."""
    children = []
    for process in Path("/proc").iterdir():
        with suppress(OSError, ValueError):
            if int(_stat(int(process.name))[1]) == parent:
                children.append(int(process.name))
    return children


def command_words(pid):
    """Return the command line of a process as words; none if it has exited, even if its parent has not noticed yet."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_text().split("\0")[:-1]
    return []


def memory_bytes(pid):
    """Return the resident memory of a process."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    (kibibytes,) = [line.split()[1] for line in lines if line.startswith("VmRSS:")]
    return int(kibibytes) * 1024


def thread_states(pid):
    """Return the state letters of all threads of a process; none if there is no such process."""
    states = set()
    with suppress(OSError):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            with suppress(OSError):
                states.add(thread.joinpath("stat").read_text().rpartition(")")[2].split()[0])
    return states


def has_ended(pid):
    """Return whether a process has ended, even if its parent has not noticed yet."""
    return process_state(pid) in {None, "X", "Z"}


def process_state(pid):
    """Return the state letter of a process as in /proc; None if there is no such process."""
    try:
        return _stat(pid)[0]
    except OSError:
        return None


def session_seconds(session):
    """Return the processor time that the processes of a session have taken, as of a JVM with its Python workers [s]."""
    members = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if int(_stat(process.name)[3]) == session:
                members.append(process.name)
    return processor_seconds(members)


def processor_seconds(pids):
    """Return the processor time that processes have taken, with their children that have ended [s]."""
    ticks = 0
    for pid in pids:
        with suppress(OSError):  # it has ended
            ticks += sum(map(int, _stat(pid)[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def _stat(pid):
    """Return state, parent and so on: the fields after the name, which may contain any character."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
