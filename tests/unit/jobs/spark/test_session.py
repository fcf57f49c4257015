"""The JVM of a session can be killed although it does not respond."""

import signal
import subprocess
from types import SimpleNamespace

from py4j.protocol import Py4JNetworkError

from jobs.spark.session import kill_jvm


class Gateway:
    """The gateway to the JVM of spark-submit, which this process did not start; calls wait for the JVM to exit."""

    def __init__(self, process):
        self._process = process

    @property
    def jvm(self):
        self._process.wait(10)
        raise Py4JNetworkError("the JVM does not answer")


def test_the_jvm_of_spark_submit_is_killed_although_it_does_not_respond():
    process = subprocess.Popen(["sleep", "60"])
    spark = SimpleNamespace(sparkContext=SimpleNamespace(_gateway=Gateway(process)))
    kill_jvm(spark, process.pid)
    assert process.wait(0) == -signal.SIGKILL
    kill_jvm(spark, process.pid)  # it has exited
