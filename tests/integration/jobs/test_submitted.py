"""The packaged job on a cluster: Spark standalone, spark-submit, and a worker that dies."""

import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.support.deployment import as_options
from tests.support.package import build_package, build_wheel
from tests.support.programs import child_processes
from tests.support.requesting import SOME, check_leases_released, check_tokens, prepare_users, requesting
from tests.support.spark_submit import submitted
from tests.support.standalone import Standalone
from tests.support.topics import decisions_of
from tests.support.waiting import until

pytestmark = pytest.mark.nightly

DEADLINE_SECONDS = 180


@pytest.fixture(scope="module")
def packed(tmp_path_factory):
    """The package, and what a driver unpacks of it."""
    folder = tmp_path_factory.mktemp("packed")
    build_package(build_wheel(tmp_path_factory.mktemp("wheel")), folder)
    (folder / "environment").mkdir()
    unpack = ["tar", "-xzf", folder / "environment.tar.gz", "-C", folder / "environment"]
    subprocess.run(unpack, check=True, timeout=DEADLINE_SECONDS)
    return folder


def test_a_killed_worker_loses_no_decision(packed, deployment, tmp_path):
    """It is killed with its executor while requests come; each is decided, and every copy of a decision is the same."""
    prepare_users(deployment)
    log = tmp_path / "enforce.log"
    with Standalone(tmp_path, workers=2) as cluster, enforcing(cluster, packed, deployment, log) as job:
        with requesting(deployment) as requested:
            until(lambda: job.poll() is not None or len(decisions_of(deployment)) > SOME, DEADLINE_SECONDS)
            assert job.poll() is None, log.read_text()[-2000:]
            until(lambda: all(worked(cluster, worker) for worker in (0, 1)), DEADLINE_SECONDS)
            cluster.kill(0)
            before = len(requested)
            until(lambda: len(decisions_of(deployment)) > before + SOME, DEADLINE_SECONDS)
        until(lambda: len(decisions_of(deployment)) == len(requested), DEADLINE_SECONDS)
        stop(job)
        assert job.wait(DEADLINE_SECONDS) == 0, log.read_text()[-2000:]
    check_tokens(deployment, requested)
    check_leases_released(deployment, "enforce")
    assert "Lost executor" in log.read_text()


def enforcing(cluster, packed, deployment, log):
    """The job, as an operator submits it."""
    properties = {
        "spark.archives": "environment.tar.gz#environment",
        "spark.pyspark.python": "./environment/bin/python",
        "spark.executor.memory": "512m",
    }
    given = (f"storage.root={deployment.storage.root}", "enforce.state_partitions=2")  # a task for each worker
    args = ["enforce", *as_options(deployment, *given)]
    return submitted(cluster, properties, ["submit.py", *args], log=log, cwd=packed)


def worked(cluster, worker):
    """Return whether an executor of a worker has run Python."""
    return any(child_processes(executor) for executor in cluster.executors(worker))


def stop(job):
    """Stop the program, which spark-submit's JVM runs."""
    (program,) = [pid for pid in child_processes(job.pid) if b"submit.py" in Path(f"/proc/{pid}/cmdline").read_bytes()]
    os.kill(program, signal.SIGTERM)
