"""The Spark session of a process, on a JVM that it starts, or on the one that spark-submit has started."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pyspark
from py4j.java_gateway import JavaGateway  # type: ignore[import-untyped]
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from jobs.spark.class_archive import ClassArchive
from jobs.spark.installation import jars_in, java_program
from jobs.spark.operator_advice import with_operator_advice
from jobs.spark.properties import spark_properties, submitted_properties
from quota.settings import Settings
from quota.settings.secrets import is_secret

_END_SECONDS = 30.0

_SUBMITTED = "PYSPARK_GATEWAY_PORT"
"""A variable in the environment of programs that spark-submit runs."""


@contextmanager
def session(settings: Settings, name: str, log: Path | None = None, *, delta: bool = False) -> Iterator[SparkSession]:
    """A session that stops at the end of the block; errors of queries carry advice for operators.

    Args:
        settings: the settings.
        name: the program's name; the application is `mutation-quota <name>`.
        log: as for `start_session`.
        delta: as for `start_session`.

    Raises:
        BadInput: there is no JVM, or there are no jars.
        MutationQuotaError: a query failed inside the block: why, and what to do.
    """
    archive = _archive_of(settings, name)
    java_options = archive.options if archive else ""
    spark = start_session(settings, f"mutation-quota {name}", log, delta=delta, java_options=java_options)
    try:
        with with_operator_advice(settings):
            yield spark
    finally:
        ended = stop_session(spark)
        if archive:
            archive.keep(ended=ended)


def _archive_of(settings: Settings, name: str) -> ClassArchive | None:
    """Return the class archive of a program's JVM, if there is to be one; spark-submit starts its JVM without."""
    if not settings.spark.class_archives or _SUBMITTED in os.environ:
        return None
    jars = [*Path(pyspark.__file__).parent.glob("jars/*.jar"), *jars_in(settings.spark.jars)]
    return ClassArchive(Path(settings.spark.class_archives), name, jars)


def start_session(
    settings: Settings, name: str, log: Path | None = None, *, delta: bool = False, java_options: str = ""
) -> SparkSession:
    """Start the session of this process.

    Args:
        settings: the settings.
        name: the application's name, unless spark-submit was given one.
        log: the file for the output of the JVM and the workers, standard error by default. With spark-submit it is
            ignored: that has its own logging.
        delta: whether the session reads or writes Delta tables.
        java_options: options of the JVM; with spark-submit they are ignored.

    Raises:
        BadInput: there is no JVM, or there are no jars.
    """
    on_interrupt = signal.getsignal(signal.SIGINT)
    if _SUBMITTED in os.environ:
        conf, gateway = _submitted_jvm(settings, name, delta=delta)
    else:
        conf, gateway = _own_jvm(
            settings, name, log, spark_properties(settings, delta=delta, java_options=java_options)
        )
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    context = SparkContext(conf=conf, gateway=gateway)
    signal.signal(signal.SIGINT, on_interrupt)  # SparkContext installs a handler of its own, which kills batches
    return SparkSession(context)


def stop_session(spark: SparkSession) -> bool:
    """Stop a session and its JVM, so that nothing of it outlives the program.

    PySpark alone leaves it to the JVM to notice that this process has ended, some time later.

    Returns:
        Whether the JVM has ended by itself; false if it was killed, or if spark-submit has started it.
    """
    gateway: Any = spark.sparkContext._gateway  # noqa: SLF001 PySpark has no other way to the process it started
    with suppress(Py4JError, OSError):  # the JVM may have ended already
        spark.stop()
    if gateway.proc is None:  # spark-submit's JVM ends after this process
        return False
    gateway.shutdown()
    gateway.proc.stdin.close()  # the JVM waits for the end of its input
    try:
        gateway.proc.wait(_END_SECONDS)
    except subprocess.TimeoutExpired:
        gateway.proc.kill()
        gateway.proc.wait()
    # The next session of this process starts a JVM of its own.
    SparkContext._gateway = SparkContext._jvm = None  # noqa: SLF001
    return bool(gateway.proc.returncode == 0)


def _submitted_jvm(settings: Settings, name: str, *, delta: bool) -> tuple[SparkConf, JavaGateway]:
    """Connect to the JVM of the spark-submit that runs this process."""
    gateway = launch_gateway()  # type: ignore[no-untyped-call]
    conf = SparkConf(loadDefaults=True, _jvm=gateway.jvm)
    given = dict(conf.getAll())
    conf.setAll(list(submitted_properties(settings, given, delta=delta).items()))
    if given["spark.app.name"] == Path(sys.argv[0]).name:  # spark-submit's default
        conf.setAppName(name)
    return conf, gateway


def _own_jvm(
    settings: Settings, name: str, log: Path | None, properties: dict[str, str]
) -> tuple[SparkConf, JavaGateway]:
    """Start a JVM."""
    java_program()  # else spark-submit would tell it in its own way
    conf = SparkConf(loadDefaults=False).setAll(list(properties.items())).setAppName(name)
    # All users of the machine can read the JVM's command line.
    hidden = settings.storage.hadoop().keys() | {key for key in properties if is_secret(key)}
    visible = SparkConf(loadDefaults=False).setAll([each for each in conf.getAll() if each[0] not in hidden])
    if settings.spark.master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    # A process group of its own keeps Ctrl-C from the JVM and its workers: we stop the queries first, then them.
    popen: dict[str, Any] = {"start_new_session": True}
    if log is not None:
        log.parent.mkdir(parents=True, exist_ok=True)
        popen["stdout"] = popen["stderr"] = log.open("ab")
    return conf, launch_gateway(visible, popen)  # type: ignore[no-untyped-call]
