"""The job by spark-submit on Spark's own master and two workers, in its JVM: an executor dies."""

import os
import signal
import sys
from functools import partial
from types import SimpleNamespace

import pytest

from tests.support.checkout import CHECKOUT
from tests.support.deployment import as_options
from tests.support.programs import child_processes, command_words
from tests.support.requesting import SOME, check_leases_released, check_tokens, prepare_users, requesting
from tests.support.spark_submit import cluster_environment, spark_submit, submitted
from tests.support.topics import decisions_of
from tests.support.waiting import until

DEADLINE_SECONDS = 180
PROPERTIES = {"spark.executor.memory": "512m", "spark.pyspark.python": sys.executable}


@pytest.fixture
def cluster(tmp_path):
    """Spark's own master and two workers of one core each, in a folder with what the package contains."""
    (tmp_path / "conf").symlink_to(CHECKOUT / "conf")
    (tmp_path / "jars").symlink_to(CHECKOUT / ".jars" / "spark")
    master = ("--master", "local-cluster[2,1,1024]")
    submit = partial(spark_submit, *master, environment=cluster_environment(tmp_path))
    return SimpleNamespace(submit=submit, folder=tmp_path)


def test_a_killed_executor_loses_no_decision(deployment, cluster, tmp_path):
    """It is killed with its Python while requests come; each is decided, and every copy of a decision is the same."""
    prepare_users(deployment)
    log = tmp_path / "enforce.log"
    given = (f"storage.root={deployment.storage.root}", "enforce.state_partitions=2")  # a task for each worker
    args = ["conf/spark/submit.py", "enforce", *as_options(deployment, *given)]
    with submitted(cluster, PROPERTIES, args, log=log, cwd=cluster.folder) as job:

        def wait_for(condition):
            until(lambda: job.poll() is not None or condition(), DEADLINE_SECONDS)
            assert job.poll() is None, log.read_text()[-2000:]

        with requesting(deployment) as requested:
            wait_for(lambda: len(decisions_of(deployment)) > SOME)
            wait_for(lambda: len(executors(job)) == 2 and all(map(child_processes, executors(job))))
            os.kill(executors(job)[0], signal.SIGKILL)
            before = len(requested)
            wait_for(lambda: len(decisions_of(deployment)) > before + SOME)
        wait_for(lambda: len(decisions_of(deployment)) == len(requested))
        stop(job)
        assert job.wait(DEADLINE_SECONDS) == 0, log.read_text()[-2000:]
    check_tokens(deployment, requested)
    check_leases_released(deployment, "enforce")
    assert "Lost executor" in log.read_text()


def executors(job):
    """Return the executors, which the workers in the driver's JVM have started."""
    return [pid for pid in child_processes(job.pid) if "CoarseGrainedExecutorBackend" in " ".join(command_words(pid))]


def stop(job):
    """Stop the program, which spark-submit's JVM runs."""
    (program,) = [pid for pid in child_processes(job.pid) if "submit.py" in " ".join(command_words(pid))]
    os.kill(program, signal.SIGTERM)
