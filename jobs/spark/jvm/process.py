"""The JVM that a process starts for Spark, and how it ends, also on Ctrl-C.

PySpark could start it, too, but does not return its process before it is ready: an interrupt during that time would
leave it running.
"""

import logging
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any

import py4j  # type: ignore[import-untyped]
import pyspark
from py4j.java_gateway import JavaGateway  # type: ignore[import-untyped]
from pyspark import SparkConf
from pyspark.find_spark_home import _find_spark_home
from pyspark.java_gateway import launch_gateway
from pyspark.serializers import UTF8Deserializer, read_int

from quota.errors import MutationQuotaError

_END_SECONDS = 30.0
_POLL_SECONDS = 0.05

# Spark requests an incubator module, for which Java prints a warning; only Spark's machine learning uses it.
_SPARK_CLASS = """
exec() {
  local command=() word
  for word in "$@"; do [ "$word" = --add-modules=jdk.incubator.vector ] || command+=("$word"); done
  builtin exec "${command[@]}"
}
. "$SPARK_HOME/bin/spark-class"
"""
"""Spark's own script, without that module in the command that it finally executes."""

_TEMPORARY = "/tmp"  # noqa: S108 a new folder is created in it; a longer path could exceed the limit of a socket

_PORT, _SECRET = "PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET"
_LIBRARIES = tuple(f"{Path(str(each.__file__)).parent}{os.sep}" for each in (py4j, pyspark))
_SESSION = 3
"""The index of the session in `/proc/PID/stat`, among the fields after the name."""


class Jvm:
    """A JVM in its own session, which shields it and its workers from Ctrl-C, so that queries can be stopped first."""

    def __init__(self, options: str = "") -> None:
        """Prepare a JVM; `start` starts it.

        Args:
            options: options of Java, quoted for Spark.
        """
        self.options = options
        self.interrupted = False
        """Whether a signal arrived in a block of `interruptible`, which kills the JVM."""
        self._process: subprocess.Popen[bytes] | None = None
        self._launching = False
        self._folder: Path | None = None

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        """Make Ctrl-C and SIGTERM kill the JVM inside the block, which then ends with `KeyboardInterrupt`.

        An exception that is raised within PySpark would leave its connection in an unknown state. So nothing is raised
        there: the call fails because the JVM has exited.

        Raises:
            KeyboardInterrupt: a signal arrived.
        """
        if threading.current_thread() is not threading.main_thread():  # other threads receive no signals
            yield
            return
        previous = {each: signal.signal(each, self._on_signal) for each in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        except Exception:
            if self.interrupted:
                raise KeyboardInterrupt from None
            raise
        finally:
            for each, handler in previous.items():
                signal.signal(each, handler)
        if self.interrupted:
            raise KeyboardInterrupt

    def start(self, conf: SparkConf, log: Path | None) -> JavaGateway:
        """Start the JVM and return the gateway to it; kill it after an error.

        Args:
            conf: the properties of Spark; all users of the machine can read them.
            log: the file for the output of the JVM and its workers, standard error by default.

        Raises:
            MutationQuotaError: the JVM has exited.
        """
        logging.getLogger().addFilter(_not_of_py4j)
        self._folder = Path(tempfile.mkdtemp(prefix="spark-", dir=_TEMPORARY))
        try:
            gateway = self._folder / "gateway"
            self._launch(conf, log, gateway)
            return self._connect(gateway)
        except BaseException:
            self.kill()
            raise

    def stop(self) -> bool:
        """Wait until the JVM, whose gateway is shut down, and all its processes have exited.

        Returns:
            Whether it exited by itself; false if it was killed.
        """
        process = self._process
        if process is None or process.stdin is None:
            return False
        try:
            with suppress(OSError):
                process.stdin.close()  # the JVM waits for the end of its input
            with suppress(subprocess.TimeoutExpired):
                process.wait(_END_SECONDS)
            return process.returncode == 0
        finally:
            self.kill()

    def kill(self) -> None:
        """Kill the JVM and all processes that it started, wait for their end, and remove its temporary files."""
        try:
            self._signal()
            if self._process is not None:
                self._process.wait()
                if self._process.stdin is not None:
                    with suppress(OSError):
                        self._process.stdin.close()
        finally:  # also if Ctrl-C interrupts the wait
            if self._folder is not None:
                shutil.rmtree(self._folder, ignore_errors=True)

    def _on_signal(self, _number: int, frame: FrameType | None) -> None:
        again, self.interrupted = self.interrupted, True
        self._signal()
        if not self._launching and (again or not _in_libraries(frame)):
            raise KeyboardInterrupt

    def _launch(self, conf: SparkConf, log: Path | None, gateway: Path) -> None:
        """Start the process.

        Raises:
            KeyboardInterrupt: a signal arrived meanwhile.
        """
        home = _find_spark_home()
        options = [word for name, value in conf.getAll() for word in ("--conf", f"{name}={value}")]
        last = shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", "pyspark-shell"))
        spark_submit = ["spark-class", "org.apache.spark.deploy.SparkSubmit", *options, *last]
        environment = {
            "SPARK_HOME": home,
            "SPARK_CONNECT_MODE": "0",
            "PYTHONHASHSEED": "0",
            "_PYSPARK_DRIVER_CONN_INFO_PATH": str(gateway),
            "SPARK_SUBMIT_OPTS": f"{os.environ.get('SPARK_SUBMIT_OPTS', '')} -Djava.io.tmpdir={gateway.parent}",
        }
        output: dict[str, Any] = {}
        if log is not None:
            log.parent.mkdir(parents=True, exist_ok=True)
            output["stdout"] = output["stderr"] = log.open("ab")
        self._launching = True
        try:
            self._process = subprocess.Popen(
                ["/usr/bin/env", "bash", "-c", _SPARK_CLASS, *spark_submit],
                stdin=subprocess.PIPE,
                env=os.environ | environment,
                start_new_session=True,
                **output,
            )
        finally:
            self._launching = False
            if output:
                output["stdout"].close()
        if self.interrupted:
            raise KeyboardInterrupt

    def _connect(self, gateway: Path) -> JavaGateway:
        """Connect to the gateway, whose address the JVM writes to a file when it is ready.

        Raises:
            MutationQuotaError: the JVM has exited.
        """
        process = self._process
        while process is not None and not gateway.exists():
            if process.poll() is not None:
                raise MutationQuotaError(f"Spark's JVM has exited during its start (exit {process.returncode})")
            time.sleep(_POLL_SECONDS)
        with gateway.open("rb") as info:
            os.environ[_PORT] = str(read_int(info))  # type: ignore[no-untyped-call]
            os.environ[_SECRET] = UTF8Deserializer().loads(info)  # type: ignore[no-untyped-call]
        try:
            return launch_gateway()  # type: ignore[no-untyped-call]
        finally:
            del os.environ[_PORT], os.environ[_SECRET]

    def _signal(self) -> None:
        """Kill the JVM, and then its Python workers, which have their own process groups."""
        process = self._process
        if process is None:
            return
        with suppress(ProcessLookupError):
            if process.returncode is None:  # otherwise the number may belong to another process
                os.killpg(process.pid, signal.SIGKILL)
        for each in _session_members(process.pid):
            with suppress(ProcessLookupError):
                os.kill(each, signal.SIGKILL)


def _not_of_py4j(record: logging.LogRecord) -> bool:
    """Return whether a record of the root logger is not from Py4J, which also raises the errors that it logs."""
    return not record.pathname.startswith(_LIBRARIES)


def _in_libraries(frame: FrameType | None) -> bool:
    """Return whether a frame is within a call of PySpark or Py4J."""
    while frame is not None:
        if frame.f_code.co_filename.startswith(_LIBRARIES):
            return True
        frame = frame.f_back
    return False


def _session_members(session: int) -> Iterator[int]:
    """Yield the processes of a session, if the system lists them (Linux); elsewhere they exit by themselves."""
    if sys.platform != "linux":
        return
    for each in Path("/proc").iterdir():
        with suppress(OSError, ValueError, IndexError):
            fields = Path(each, "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
            if int(fields[_SESSION]) == session:
                yield int(each.name)
