"""The packaged job on YARN in cluster mode: containers of executors and of the driver are killed."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from unittest import mock
from urllib.request import urlopen

import pytest

from conf.release.distributions import EARLIEST, build
from conf.release.packing import pack
from jobs.installation import java_program
from tests.support.checkout import CHECKOUT
from tests.support.deployment import as_options
from tests.support.needs import need
from tests.support.programs import JVM_OPTIONS, command_words
from tests.support.requesting import SOME, check_leases_released, check_tokens, prepare_users, requesting
from tests.support.spark_submit import SPARK_HOME, cluster_environment, spark_submit, submitted
from tests.support.tables import read_table
from tests.support.topics import decisions_of
from tests.support.waiting import until

_JARS = CHECKOUT / ".jars" / "yarn"
_PROGRAM = CHECKOUT / "tests" / "yarn" / "MiniYarn.java"


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
            self._api = until(self._address, DEADLINE_SECONDS)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for container in self.containers():
            self.kill(container)
        self._cluster.stdin.close()
        try:
            self._cluster.wait(DEADLINE_SECONDS)
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


pytestmark = [pytest.mark.nightly, pytest.mark.timeout(1200)]

DEADLINE_SECONDS = 240


@pytest.fixture(scope="module")
def packed(tmp_path_factory):
    """The package, as an operator has it."""
    folder = tmp_path_factory.mktemp("packed")
    build_package(build_wheel(tmp_path_factory.mktemp("wheel")), folder)
    return folder


@pytest.fixture(scope="module")
def yarn(tmp_path_factory):
    """A cluster of two nodes."""
    with Yarn(tmp_path_factory.mktemp("yarn") / "cluster", nodes=2) as running:
        yield running


def test_killed_containers_lose_no_decision(yarn, packed, deployment, tmp_path):
    """An executor and later the driver are killed while requests come; YARN replaces both, and each is decided once."""
    prepare_users(deployment)
    log = tmp_path / "submit.log"
    with enforcing(yarn, packed, deployment, log) as job:

        def wait_for(condition):
            until(lambda: runs(job, log, yarn) and condition(), DEADLINE_SECONDS)

        def wait_for_answers(count):
            wait_for(lambda: len(decisions_of(deployment)) >= count)

        with requesting(deployment) as requested:
            wait_for_answers(SOME)
            wait_for(lambda: len(executors(yarn)) == 2)
            killed = executors(yarn)[0]
            yarn.kill(killed)
            wait_for(lambda: len(executors(yarn)) == 2 and killed not in executors(yarn))
            wait_for_answers(len(requested) + SOME)

            first = driver(yarn)
            yarn.kill(first)
            wait_for(lambda: driver(yarn) not in {None, first})
            wait_for_answers(len(requested) + SOME)
        wait_for_answers(len(requested))
        wait_for(lambda: len(read_table(deployment, "decisions")) == len(requested))
        os.kill(program(yarn), signal.SIGTERM)
        assert job.wait(DEADLINE_SECONDS) == 0, log.read_text()[-2000:]
    check_tokens(deployment, requested)
    check_leases_released(deployment, "enforce", "audit")
    assert {row["decision_id"] for row in read_table(deployment, "decisions")} == decisions_of(deployment).keys()
    ended = yarn.application(log)
    assert (ended["finalStatus"], ended["name"]) == ("SUCCEEDED", "mutation-quota-enforce")


def enforcing(yarn, packed, deployment, log):
    """The job with the audit, as docs/how-to/platforms/yarn.md submits it, with less memory."""
    java = f"{JVM_OPTIONS} -Dlog4j2.configurationFile=log4j2.properties"
    properties = {
        "spark.pyspark.python": "./environment/bin/python",
        "spark.driver.extraJavaOptions": java,
        "spark.executor.extraJavaOptions": java,
        "spark.driver.memory": "1g",
        "spark.driver.memoryOverhead": "1g",
        "spark.executor.memory": "512m",
        "spark.executor.memoryOverhead": "1g",
        "spark.yarn.maxAppAttempts": "2",
    }
    options = ["--files", "conf/mutation-quota.toml,conf/log4j2.properties", "--num-executors", "2"]
    options += ["--deploy-mode", "cluster"]
    options += ["--archives", "environment.tar.gz#environment", "--name", "mutation-quota-enforce"]
    given = (f"storage.root={deployment.storage.root}", "enforce.with_audit=true")
    args = ["enforce", "--settings", "mutation-quota.toml", *as_options(deployment, *given)]
    return submitted(yarn, properties, [*options, "submit.py", *args], log=log, cwd=packed)


def runs(job, log, yarn):
    assert job.poll() is None, f"{log.read_text()[-2000:]}\n{yarn.logs()[-20000:]}"
    return True


def driver(yarn):
    """Return the container of the application's newest attempt that runs the driver; None if there is none."""
    return max((container for container in yarn.containers() if container.endswith("_000001")), default=None)


def executors(yarn):
    """The other containers that run Python."""
    containers = yarn.containers()
    return sorted(name for name in containers if name != driver(yarn) and any(map(is_python, containers[name])))


def is_python(pid):
    return "environment/bin/python" in " ".join(command_words(pid))


def program(yarn):
    """The process id of the driver's Python."""
    found = yarn.containers()[driver(yarn)]
    (pid,) = [pid for pid in found if is_python(pid) and "submit.py" in " ".join(command_words(pid))]
    return pid


def build_wheel(folder):
    """Build the wheel from a copy of this checkout, and return its path."""
    return build(CHECKOUT, folder, EARLIEST)


def build_package(wheel, folder):
    """Put what spark-submit takes into a folder: the archive, the program, and the configuration."""
    with mock.patch("conf.release.packing._GZIP_LEVEL", 0):  # packed and unpacked in a third of the time
        pack(wheel, folder / "environment.tar.gz", Path(sys.executable).resolve())
    shutil.copy(CHECKOUT / "conf" / "spark" / "submit.py", folder)
    (folder / "conf").mkdir()
    for file in ("spark-defaults.conf", "log4j2.properties", "mutation-quota.toml"):
        shutil.copy(CHECKOUT / "conf" / file, folder / "conf")
    (folder / "jars").symlink_to(CHECKOUT / ".jars" / "spark")
