"""Spark standalone on this machine: a master and workers, started by Spark's own classes."""

import os
import re
import signal
import subprocess
from contextlib import suppress

from tests.support.programs import JVM_OPTIONS, child_processes
from tests.support.spark_submit import SPARK_HOME, cluster_environment, spark_submit
from tests.support.waiting import until

_DEADLINE_SECONDS = 120


class Standalone:
    """A master and workers of one core each, which run inside the block."""

    def __init__(self, folder, workers):
        """Prepare a cluster."""
        self._folder = folder
        self._count = workers
        self._daemons = []
        self.workers = []
        quick = {"SPARK_DAEMON_MEMORY": "256m", "SPARK_DAEMON_JAVA_OPTS": JVM_OPTIONS}
        self.environment = cluster_environment(folder) | quick

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
        """Start a program by spark-submit, in its own session."""
        return spark_submit("--master", self.url, *args, environment=self.environment, log=log, cwd=cwd)

    def executors(self, worker):
        """Return the process ids of a worker's executors."""
        return child_processes(self.workers[worker].pid)

    def kill(self, worker):
        """Kill a worker and its executors by SIGKILL."""
        executors = self.executors(worker)
        self.workers[worker].kill()
        for pid in executors:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.workers[worker].wait(_DEADLINE_SECONDS)

    def _start_all(self):
        self._start("master", "master.Master", "--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
        self.url = until(lambda: self._find("master", r"Starting Spark master at (spark://\S+)"), _DEADLINE_SECONDS)
        for number in range(self._count):
            name = f"worker-{number}"
            room = ("--cores", "1", "--memory", "1g", "--webui-port", "0", "--work-dir", str(self._folder / name))
            self.workers.append(self._start(name, "worker.Worker", "--host", "127.0.0.1", *room, self.url))
        for number in range(self._count):
            until(lambda name=f"worker-{number}": self._find(name, "(Successfully registered)"), _DEADLINE_SECONDS)

    def _start(self, name, main, *args):
        command = [SPARK_HOME / "bin" / "spark-class", f"org.apache.spark.deploy.{main}", *args]
        with self._log(name).open("wb") as output:
            daemon = subprocess.Popen(
                command, env=self.environment, stdout=output, stderr=output, start_new_session=True
            )
        self._daemons.append(daemon)
        return daemon

    def _find(self, name, pattern):
        assert all(daemon.poll() is None for daemon in self._daemons), self._log(name).read_text()
        match = re.search(pattern, self._log(name).read_text())
        return match and match[1]

    def _log(self, name):
        return self._folder / f"{name}.log"
