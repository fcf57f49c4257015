"""The Spark session of the jobs: on a JVM that this process starts, or on the one that spark-submit has started."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from py4j.java_gateway import JavaGateway  # type: ignore[import-untyped]
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from jobs.spark.failures import with_operator_advice
from jobs.spark.properties import spark_properties, submitted_properties
from quota.errors import BadInput
from quota.settings.model import Settings
from quota.settings.secrets import is_secret
from quota.settings.storage import hadoop_properties

_END_SECONDS = 30.0

_SUBMITTED = "PYSPARK_GATEWAY_PORT"
"""In the environment of a program that spark-submit runs."""


def spark_session(settings: Settings, name: str, log: Path | None = None) -> SparkSession:
    """Start the session of this process.

    Args:
        settings: the settings.
        name: what the application is called in Spark's lists, where spark-submit was not told a name.
        log: a file for what the JVM and the workers write, in place of standard error; spark-submit has its own ways.

    Raises:
        BadInput: there is no JVM, or no jars.
    """
    on_interrupt = signal.getsignal(signal.SIGINT)
    conf, gateway = _submitted(settings, name) if _SUBMITTED in os.environ else _started(settings, name, log)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    context = SparkContext(conf=conf, gateway=gateway)
    signal.signal(signal.SIGINT, on_interrupt)  # SparkContext puts a handler of its own there, which kills batches
    return SparkSession(context)


def _submitted(settings: Settings, name: str) -> tuple[SparkConf, JavaGateway]:
    """The JVM that spark-submit has started this process from."""
    gateway = launch_gateway()  # type: ignore[no-untyped-call]
    conf = SparkConf(loadDefaults=True, _jvm=gateway.jvm)
    given = dict(conf.getAll())
    conf.setAll(list(submitted_properties(settings, given).items()))
    if given["spark.app.name"] == Path(sys.argv[0]).name:  # what spark-submit takes where it is told none
        conf.setAppName(name)
    return conf, gateway


def _started(settings: Settings, name: str, log: Path | None) -> tuple[SparkConf, JavaGateway]:
    """A JVM of this process's own."""
    if not (os.environ.get("JAVA_HOME") or shutil.which("java")):
        raise BadInput("no java found; install a JDK 17 or newer")
    properties = spark_properties(settings)
    conf = SparkConf(loadDefaults=False).setAll(list(properties.items())).setAppName(name)
    # What a JVM is started with stands on its command line, for all users of the machine.
    hidden = hadoop_properties(settings).keys() | {key for key in properties if is_secret(key)}
    seen = SparkConf(loadDefaults=False).setAll([each for each in conf.getAll() if each[0] not in hidden])
    if settings.spark.master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    # A process group of its own keeps Ctrl-C from the JVM and its workers: we end the queries first, then them.
    popen: dict[str, Any] = {"start_new_session": True}
    if log is not None:
        log.parent.mkdir(parents=True, exist_ok=True)
        popen["stdout"] = popen["stderr"] = log.open("ab")
    return conf, launch_gateway(seen, popen)  # type: ignore[no-untyped-call]


def end_session(spark: SparkSession) -> None:
    """Stop a session and its JVM, so that nothing of it outlives the program.

    PySpark alone leaves the JVM to notice that this process has gone, some time after it has.
    """
    gateway: Any = spark.sparkContext._gateway  # noqa: SLF001 PySpark has no other way to the process it started
    with suppress(Py4JError, OSError):  # nothing is left to stop where the JVM has ended by itself
        spark.stop()
    if gateway.proc is None:  # spark-submit's JVM ends when this process has
        return
    gateway.shutdown()
    gateway.proc.stdin.close()  # what its JVM waits for
    try:
        gateway.proc.wait(_END_SECONDS)
    except subprocess.TimeoutExpired:
        gateway.proc.kill()
        gateway.proc.wait()
    # Another session of this process starts a JVM of its own.
    SparkContext._gateway = SparkContext._jvm = None  # noqa: SLF001


@contextmanager
def working_session(settings: Settings, name: str, log: Path | None = None) -> Iterator[SparkSession]:
    """A session that ends with the block, in which failures are told with what to do."""
    spark = spark_session(settings, f"mutation-quota {name}", log)
    try:
        with with_operator_advice(settings):
            yield spark
    finally:
        end_session(spark)
