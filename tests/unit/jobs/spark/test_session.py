"""The JVM of a session can be killed although it does not respond."""

import signal
import subprocess
from types import SimpleNamespace

from jobs.spark.session import kill_jvm


class Gateway:
    """The gateway to the JVM of spark-submit, which this process did not start."""

    def __getattr__(self, name):
        raise AssertionError(f"the JVM is called: {name}")


def test_the_jvm_of_spark_submit_is_killed_without_a_call():
    jvm = subprocess.Popen(["sleep", "60"])
    spark = SimpleNamespace(sparkContext=SimpleNamespace(_gateway=Gateway()))
    kill_jvm(spark, jvm.pid)
    assert jvm.wait(10) == -signal.SIGKILL
    kill_jvm(spark, jvm.pid)  # it has exited
