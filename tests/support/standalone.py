"""Spark standalone on this machine: a master and workers, started by the classes that a cluster starts."""

import os
import re
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

import pyspark

from tests.evidence.chaos.processes import children
from tests.support.jvm import QUICK
from tests.support.waiting import until

SPARK_HOME = Path(pyspark.__file__).parent

_DEADLINE_SECONDS = 120
_NOT_OURS = ("PYTHON", "PYSPARK", "SPARK", "KAFKA", "MUTATION_QUOTA")
"""Of this process's environment: a cluster knows nothing of it."""


class Standalone:
    """A master and workers of a core each; as a context manager they run inside the block."""

    def __init__(self, folder, workers):
        """Prepare.

        Args:
            folder: of its logs, and of what the workers unpack.
            workers: how many.
        """
        self._folder = folder
        self._count = workers
        self._daemons = []
        self.workers = []
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith(_NOT_OURS)}
        self.environment |= {
            "SPARK_HOME": str(SPARK_HOME),
            "SPARK_CONF_DIR": str(folder),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": QUICK,
        }

    def __enter__(self):
        try:
            self._start_all()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for daemon in self._daemons:
            daemon.terminate()
        for daemon in self._daemons:
            daemon.wait(_DEADLINE_SECONDS)

    def submit(self, *args, log, cwd):
        """Run a program on it by spark-submit, which begins a process group of its own.

        Args:
            args: spark-submit's options, the program, and its own.
            log: a file for what it says.
            cwd: where it runs.
        """
        quick = [f"spark.{each}.extraJavaOptions={QUICK}" for each in ("driver", "executor")]
        options = ["--master", self.url, *(part for each in quick for part in ("--conf", each))]
        with log.open("ab") as output:
            return subprocess.Popen(
                [SPARK_HOME / "bin" / "spark-submit", *options, *args],
                cwd=cwd,
                env=self.environment,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    def executors(self, worker):
        """The executors that a worker runs."""
        return children(self.workers[worker].pid)

    def kill(self, worker):
        """Kill a worker and its executors by SIGKILL."""
        executors = self.executors(worker)
        self.workers[worker].kill()
        for each in executors:
            with suppress(ProcessLookupError):
                os.kill(each, signal.SIGKILL)
        self.workers[worker].wait(_DEADLINE_SECONDS)

    def _start_all(self):
        self._start("master", "master.Master", "--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
        self.url = until(lambda: self._said("master", r"Starting Spark master at (spark://\S+)"), _DEADLINE_SECONDS)
        for number in range(self._count):
            name = f"worker-{number}"
            room = ("--cores", "1", "--memory", "1g", "--webui-port", "0", "--work-dir", str(self._folder / name))
            self.workers.append(self._start(name, "worker.Worker", "--host", "127.0.0.1", *room, self.url))
        for number in range(self._count):
            until(lambda name=f"worker-{number}": self._said(name, "(Successfully registered)"), _DEADLINE_SECONDS)

    def _start(self, name, main, *args):
        command = [SPARK_HOME / "bin" / "spark-class", f"org.apache.spark.deploy.{main}", *args]
        with self._log(name).open("wb") as output:
            daemon = subprocess.Popen(
                command, env=self.environment, stdout=output, stderr=output, start_new_session=True
            )
        self._daemons.append(daemon)
        return daemon

    def _said(self, name, pattern):
        assert all(daemon.poll() is None for daemon in self._daemons), self._log(name).read_text()
        found = re.search(pattern, self._log(name).read_text())
        return found and found[1]

    def _log(self, name):
        return self._folder / f"{name}.log"
