"""The JVM that a process starts for Spark.

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
import time
from collections.abc import Iterator, Mapping
from contextlib import nullcontext, suppress
from pathlib import Path

from py4j.java_gateway import JavaGateway  # type: ignore[import-untyped]
from pyspark.find_spark_home import _find_spark_home
from pyspark.java_gateway import launch_gateway
from pyspark.serializers import UTF8Deserializer, read_int

from jobs.spark.installation import java_program
from jobs.stopping import Killable
from quota.errors import MutationQuotaError

SUBMITTED = "PYSPARK_GATEWAY_PORT"
"""An environment variable of programs that spark-submit runs, with the port of its JVM."""

_SECRET = "PYSPARK_GATEWAY_SECRET"  # noqa: S105 the name of a variable

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

_COMMAND = ("/usr/bin/env", "bash", "-c", _SPARK_CLASS, "spark-class", "org.apache.spark.deploy.SparkSubmit")

_TEMPORARY = "/tmp"  # noqa: S108 a new folder is created in it; a longer path could exceed the limit of a socket

_SESSION = 3
"""The index of the session in `/proc/PID/stat`, among the fields after the name."""


class Jvm(Killable):
    """A JVM in its own session, which shields it and its workers from Ctrl-C, so that queries can be stopped first."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._folder: Path | None = None

    def start(self, properties: Mapping[str, str], log: Path | None) -> JavaGateway:
        """Start the JVM and return the gateway to it; the caller kills it after an error.

        Args:
            properties: the properties of Spark; all users of the machine can read them.
            log: the file for the output of the JVM and its workers, standard error by default.

        Raises:
            KeyboardInterrupt: a signal arrived before there was a process to kill.
        """
        java_program()  # otherwise Spark would report the missing Java in its own words
        logging.getLogger().addFilter(_not_of_py4j)
        self._folder = Path(tempfile.mkdtemp(prefix="spark-", dir=_TEMPORARY))
        options = [word for name, value in properties.items() for word in ("--conf", f"{name}={value}")]
        last = shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", "pyspark-shell"))
        address = self._folder / "gateway"
        environment = {
            "SPARK_HOME": _find_spark_home(),
            "SPARK_CONNECT_MODE": "0",
            "PYTHONHASHSEED": "0",
            "_PYSPARK_DRIVER_CONN_INFO_PATH": str(address),
            "SPARK_SUBMIT_OPTS": f"{os.environ.get('SPARK_SUBMIT_OPTS', '')} -Djava.io.tmpdir={self._folder}",
        }
        if log is not None:
            log.parent.mkdir(parents=True, exist_ok=True)
        self.is_launching = True
        with nullcontext() if log is None else log.open("ab") as output:
            self._process = subprocess.Popen(
                [*_COMMAND, *options, *last],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                env=os.environ | environment,
                start_new_session=True,
            )
        self.is_launching = False
        if self.has_killed:
            raise KeyboardInterrupt
        while not address.exists():
            if self._process.poll() is not None:
                raise MutationQuotaError(
                    f"Spark's JVM has exited during its start (exit {self._process.returncode}); it needs Java 17 or "
                    f"newer, and uses {java_program()}"
                )
            time.sleep(_POLL_SECONDS)
        return _connect(address)

    def end(self, seconds: float = 0.0) -> bool:
        """Wait for the end of the JVM, kill what is left of it and its processes, and remove its temporary files.

        Args:
            seconds: the time in which it may exit by itself, after its gateway was shut down.

        Returns:
            Whether it exited by itself.
        """
        process, ended = self._process, False
        try:
            if process is not None and process.stdin is not None:
                with suppress(OSError):
                    process.stdin.close()  # the JVM waits for the end of its input
                with suppress(subprocess.TimeoutExpired):
                    process.wait(seconds)
                ended = process.returncode == 0
                self.kill()
                process.wait()
        finally:  # also if Ctrl-C interrupts the wait
            if self._folder is not None:
                shutil.rmtree(self._folder, ignore_errors=True)
        return ended

    def kill(self) -> None:
        """Kill the JVM, and then its Python workers, which have their own process groups; may be called at any time."""
        process = self._process
        if process is None:
            return
        with suppress(ProcessLookupError):
            if process.returncode is None:  # otherwise the number may belong to another process
                os.killpg(process.pid, signal.SIGKILL)
        for pid in _session_members(process.pid):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def _connect(address: Path) -> JavaGateway:
    """Connect to a JVM as a program of spark-submit does, with the address and the secret that it wrote to a file."""
    with address.open("rb") as file:
        os.environ[SUBMITTED] = str(read_int(file))  # type: ignore[no-untyped-call]
        os.environ[_SECRET] = UTF8Deserializer().loads(file)  # type: ignore[no-untyped-call]
    try:
        return launch_gateway()  # type: ignore[no-untyped-call]
    finally:
        del os.environ[SUBMITTED], os.environ[_SECRET]


def _not_of_py4j(record: logging.LogRecord) -> bool:
    """Return whether a record of the root logger is not from PySpark, which also raises the errors that it logs."""
    return not {"py4j", "pyspark"}.intersection(Path(record.pathname).parts)


def _session_members(session: int) -> Iterator[int]:
    """Yield the processes of a session, if the system lists them (Linux); elsewhere they exit by themselves."""
    if sys.platform != "linux":
        return
    for folder in Path("/proc").iterdir():
        with suppress(OSError, ValueError, IndexError):
            fields = Path(folder, "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
            if int(fields[_SESSION]) == session:
                yield int(folder.name)
