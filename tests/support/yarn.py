"""YARN on this machine: a resource manager and nodes in one process, and the containers that they start."""

import json
import os
import re
import signal
import subprocess
from contextlib import suppress
from pathlib import Path
from urllib.request import urlopen

from jobs.installation import java_program
from tests.support.checkout import CHECKOUT
from tests.support.needs import need
from tests.support.spark_submit import SPARK_HOME, cluster_environment, spark_submit
from tests.support.waiting import until

_JARS = CHECKOUT / ".jars" / "yarn"
_PROGRAM = CHECKOUT / "tests" / "yarn" / "MiniYarn.java"
_DEADLINE_SECONDS = 240


class Yarn:
    """A cluster that runs inside the block."""

    def __init__(self, folder, nodes):
        """Prepare a cluster."""
        need(_JARS.exists(), "no jars of YARN; make test-yarn copies them")
        self._folder = folder
        self._nodes = nodes
        self._java = java_program().resolve()
        self.environment = cluster_environment(folder) | {
            "HADOOP_CONF_DIR": str(folder),
            "JAVA_HOME": str(self._java.parent.parent),
        }

    def __enter__(self):
        self._folder.mkdir()
        command = [self._java, "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        command += ["-cp", f"{SPARK_HOME}/jars/*:{_JARS}/*", _PROGRAM, str(self._nodes), self._folder]
        with self._log.open("wb") as output:
            self._cluster = subprocess.Popen(
                command, cwd=self._folder, env=self.environment, stdin=subprocess.PIPE, stdout=output, stderr=output
            )
        try:
            self._api = until(self._address, _DEADLINE_SECONDS)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for container in self.containers():
            self.kill(container)
        self._cluster.stdin.close()
        try:
            self._cluster.wait(_DEADLINE_SECONDS)
        except subprocess.TimeoutExpired:
            self._cluster.kill()
            raise

    def submit(self, *args, log, cwd):
        """Start a program by spark-submit; its application's id is in the log."""
        ours = {
            "spark.yarn.jars": f"local:{SPARK_HOME}/jars/*",
            "spark.yarn.stagingDir": self._folder.as_uri(),
            "spark.yarn.appMasterEnv.SPARK_LOCAL_IP": "127.0.0.1",
            "spark.executorEnv.SPARK_LOCAL_IP": "127.0.0.1",
        }
        options = [part for name, value in ours.items() for part in ("--conf", f"{name}={value}")]
        return spark_submit("--master", "yarn", *options, *args, environment=self.environment, log=log, cwd=cwd)

    def containers(self):
        """Return the process ids of each running container by its id."""
        containers = {}
        for process in Path("/proc").iterdir():
            with suppress(OSError):
                environment = process.joinpath("environ").read_bytes() if process.name.isdecimal() else b""
                variables = dict(part.partition(b"=")[::2] for part in environment.split(b"\0"))
                if variables.get(b"LOG_DIRS", b"").startswith(os.fsencode(self._folder)):
                    containers.setdefault(variables[b"CONTAINER_ID"].decode(), []).append(int(process.name))
        return containers

    def kill(self, container):
        """Kill the processes of a container by SIGKILL."""
        for pid in self.containers()[container]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def logs(self):
        """Return what all containers have printed."""
        files = sorted(self._folder.glob("**/container_*/std*"))
        return "\n".join(f"{file.parent.name} {file.name}:\n{file.read_text(errors='replace')}" for file in files)

    def application(self, log):
        """Return what the resource manager knows of the application that spark-submit's log names."""
        (name,) = set(re.findall(r"application_\d+_\d+", log.read_text()))
        with urlopen(f"http://{self._api}/ws/v1/cluster/apps/{name}") as answer:
            return json.load(answer)["app"]

    def _address(self):
        assert self._cluster.poll() is None, self._log.read_text()[-2000:]
        match = re.search(r"^up: (\S+)$", self._log.read_text(), re.MULTILINE)
        return match and match[1]

    @property
    def _log(self):
        return self._folder / "yarn.log"
