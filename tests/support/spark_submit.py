"""Programs by spark-submit, as an operator runs them: without the environment of the tests."""

import os
import subprocess
from contextlib import contextmanager
from pathlib import Path

import pyspark

from tests.support.programs import JVM_OPTIONS, POLLING

SPARK_HOME = Path(pyspark.__file__).parent

_NOT_OURS = ("PYTHON", "PYSPARK", "SPARK", "KAFKA", "HADOOP", "YARN", "MUTATION_QUOTA")
"""Prefixes of this process's environment that a cluster does not inherit."""


def cluster_environment(configuration):
    """Return the environment of a cluster's processes and of spark-submit."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_NOT_OURS)}
    return kept | {"SPARK_HOME": str(SPARK_HOME), "SPARK_CONF_DIR": str(configuration), "SPARK_LOCAL_IP": "127.0.0.1"}


@contextmanager
def submitted(cluster, properties, args, *, log, cwd):
    """Run the packaged job on a cluster inside the block; what is left of it at the end is killed."""
    named = [part for name, value in properties.items() for part in ("--conf", f"{name}={value}")]
    named += ["--properties-file", "conf/spark-defaults.conf", "--jars", "jars/*.jar"]
    job = cluster.submit(*named, *args, log=log, cwd=cwd)
    try:
        yield job
    finally:
        if job.poll() is None:
            job.kill()
            job.wait()


def spark_submit(*args, environment, log, cwd):
    """Start a program by spark-submit, in a session of its own."""
    quick = [f"spark.{role}.extraJavaOptions={JVM_OPTIONS}" for role in ("driver", "executor")]
    options = [part for config in (*quick, POLLING) for part in ("--conf", config)]
    with log.open("ab") as output:
        return subprocess.Popen(
            [SPARK_HOME / "bin" / "spark-submit", *options, *args],
            cwd=cwd,
            env=environment,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
