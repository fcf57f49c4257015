"""The Spark session of a process, on a JVM that it starts, or on the JVM of spark-submit."""

import os
import signal
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

import pyspark
from py4j.java_gateway import JavaGateway  # type: ignore[import-untyped]
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from jobs.spark.installation import java_program, spark_jars
from jobs.spark.jvm.class_archive import ClassArchive
from jobs.spark.jvm.process import Jvm
from jobs.spark.operator_advice import with_operator_advice
from jobs.spark.properties import spark_properties, submitted_properties
from quota.settings import Settings
from quota.settings.secrets import is_secret, mask_logins
from quota.settings.security.oauth import ALLOWED_URLS

_SUBMITTED = "PYSPARK_GATEWAY_PORT"
"""An environment variable of programs that spark-submit runs."""

_PROGRAM = "mutation-quota"
"""The prefix of the names of all applications."""


@contextmanager
def session(settings: Settings, name: str, log: Path | None = None, *, delta: bool = False) -> Iterator[SparkSession]:
    """Provide a session that stops at the end of the block; errors of queries contain advice for operators.

    Args:
        settings: the settings of the deployment.
        name: the program's name; the application is `mutation-quota <name>`.
        log: as for `start_session`.
        delta: as for `start_session`.

    Raises:
        BadInput: there is no JVM, or there are no jars.
        MutationQuotaError: a query failed inside the block; the message contains the reason and advice.
    """
    archive = _archive_of(settings, name)
    jvm = Jvm(archive.options if archive else "")
    with nullcontext() if _SUBMITTED in os.environ else jvm.interruptible():
        spark = start_session(settings, f"{_PROGRAM} {name}", log, delta=delta, jvm=jvm)
        try:
            with with_operator_advice(settings):
                yield spark
        finally:
            ended = stop_session(spark)
            if archive:
                archive.save(ended=ended)


def _archive_of(settings: Settings, name: str) -> ClassArchive | None:
    """Return the class archive of a program's JVM; None if it is off, or if spark-submit starts the JVM."""
    if not settings.spark.class_archives or _SUBMITTED in os.environ:
        return None
    jars = [*Path(pyspark.__file__).parent.glob("jars/*.jar"), *spark_jars(settings.spark.jars)]
    return ClassArchive(Path(settings.spark.class_archives), name, jars)


def start_session(
    settings: Settings,
    name: str,
    log: Path | None = None,
    *,
    delta: bool = False,
    jvm: Jvm | None = None,
) -> SparkSession:
    """Start the session of this process.

    Args:
        settings: the settings of the deployment.
        name: the application's name, unless spark-submit has one.
        log: the file for the output of the JVM and the workers, standard error by default; ignored with spark-submit,
            which has its own logging.
        delta: whether the session reads or writes Delta tables.
        jvm: the JVM to start, by default without options; ignored with spark-submit.

    Raises:
        BadInput: there is no JVM, or there are no jars.
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if _SUBMITTED in os.environ:
        return _session(settings, *_submitted_jvm(settings, name, delta=delta))
    jvm = jvm or Jvm()
    properties = spark_properties(settings, delta=delta, java_options=jvm.options, service=_service(name))
    try:
        with jvm.interruptible():
            conf, gateway = _own_jvm(settings, name, log, properties, jvm)
            gateway.own = jvm
            return _session(settings, conf, gateway)
    except BaseException:
        _forget(jvm)
        raise


def _session(settings: Settings, conf: SparkConf, gateway: JavaGateway) -> SparkSession:
    if url := settings.kafka.sasl_oauthbearer_token_endpoint_url:
        system = gateway.jvm.java.lang.System
        if system.getProperty(ALLOWED_URLS) is None:  # not an option of the JVM: spark-submit's runs already
            system.setProperty(ALLOWED_URLS, url)
    on_interrupt = signal.getsignal(signal.SIGINT)
    context = SparkContext(conf=conf, gateway=gateway)
    signal.signal(signal.SIGINT, on_interrupt)  # SparkContext installs its own handler, which kills batches
    return SparkSession(context)


def _forget(jvm: Jvm) -> None:
    """Kill a JVM without calling it, so that the next session of this process starts a new one."""
    jvm.kill()
    SparkContext._active_spark_context = None  # noqa: SLF001 PySpark would call the JVM to stop it
    SparkContext._gateway = SparkContext._jvm = None  # noqa: SLF001
    SparkSession._instantiatedSession = None  # noqa: SLF001


def stop_session(spark: SparkSession) -> bool:
    """Stop a session and its JVM, so that neither outlives the program.

    PySpark alone relies on the JVM to notice later that this process has exited.

    Returns:
        Whether the JVM exited by itself; false if it was killed, or if spark-submit started it.
    """
    gateway: Any = spark.sparkContext._gateway  # noqa: SLF001 PySpark has no public access to the process it started
    own: Jvm | None = vars(gateway).get("own")  # not with getattr, which calls the JVM
    if own is not None and own.interrupted:
        _forget(own)
        return False
    with suppress(Py4JError, OSError), warnings.catch_warnings():  # the JVM may have exited already
        warnings.filterwarnings("ignore", "Unable to cleanly shutdown Spark JVM process", RuntimeWarning)
        spark.stop()
    if own is None:  # spark-submit's JVM exits after this process
        return False
    with suppress(Py4JError, OSError):
        gateway.shutdown()
    ended = own.stop()
    # The next session of this process starts a new JVM.
    SparkContext._gateway = SparkContext._jvm = None  # noqa: SLF001
    return ended


def jvm_pid(spark: SparkSession) -> int:
    """Return the process id of a session's JVM."""
    jvm: Any = spark._jvm  # noqa: SLF001 PySpark has no public access to it
    return int(jvm.java.lang.ProcessHandle.current().pid())


def kill_jvm(spark: SparkSession, pid: int) -> None:
    """Kill a session's JVM immediately, even if it does not respond; may be called on any thread.

    Args:
        spark: the session.
        pid: the process id of its JVM, from `jvm_pid`.
    """
    gateway: Any = spark.sparkContext._gateway  # noqa: SLF001 PySpark has no public access to the process it started
    own: Jvm | None = vars(gateway).get("own")
    if own is not None:
        own.kill()
        return
    with suppress(ProcessLookupError):  # the JVM of spark-submit, which runs this process on the same machine
        os.kill(pid, signal.SIGKILL)
    with suppress(Py4JError, OSError):  # the first process of a container ignores that signal
        gateway.jvm.java.lang.Runtime.getRuntime().halt(1)


def _service(name: str) -> str:
    """Return the name of the service, derived from that of the application."""
    return name.removeprefix(f"{_PROGRAM} ")


def _submitted_jvm(settings: Settings, name: str, *, delta: bool) -> tuple[SparkConf, JavaGateway]:
    """Connect to the JVM of the spark-submit that runs this process."""
    gateway = launch_gateway()  # type: ignore[no-untyped-call]
    conf = SparkConf(loadDefaults=True, _jvm=gateway.jvm)
    given = dict(conf.getAll())
    conf.setAll(list(submitted_properties(settings, given, delta=delta, service=_service(name)).items()))
    if given["spark.app.name"] == Path(sys.argv[0]).name:  # spark-submit's default
        conf.setAppName(name)
    return conf, gateway


def _own_jvm(
    settings: Settings, name: str, log: Path | None, properties: dict[str, str], jvm: Jvm
) -> tuple[SparkConf, JavaGateway]:
    """Start a JVM."""
    java_program()  # otherwise spark-submit would report the missing Java in its own words
    conf = SparkConf(loadDefaults=False).setAll(list(properties.items())).setAppName(name)
    # All users of the machine can read the JVM's command line.
    secret = {key for key, value in properties.items() if is_secret(key) or mask_logins(value) != value}
    hidden = settings.storage.hadoop().keys() | secret
    visible = SparkConf(loadDefaults=False).setAll([each for each in conf.getAll() if each[0] not in hidden])
    if settings.spark.master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    return conf, jvm.start(visible, log)
