"""The Spark session of a process, on a JVM that it starts, or on the JVM of spark-submit."""

import os
import signal
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pyspark
from py4j.java_gateway import JavaGateway  # type: ignore[import-untyped]
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from jobs.background import background
from jobs.installation import spark_jars
from jobs.progress import Tell, progress
from jobs.signals import killing_on_signal
from jobs.spark.failures import with_operator_advice
from jobs.spark.jvm import ClassArchive, Jvm, nameless_user
from jobs.spark.properties import spark_properties, submitted_properties
from quota.settings import Settings
from quota.settings.connection import ALLOWED_URLS
from quota.settings.secrets import is_secret, mask_logins

_SUBMITTED = "PYSPARK_GATEWAY_PORT"
"""An environment variable of programs that spark-submit runs, with the port of its JVM."""

_PROGRAM = "mutation-quota"
"""The prefix of the names of all applications."""

_END_SECONDS = 30.0

_UPDATE_SECONDS = 0.2


@contextmanager
def spark_session(settings: Settings, name: str, log: Path | None = None) -> Iterator[SparkSession]:
    """Provide a session inside the block; its JVM does not outlive the block, whatever happens.

    The application is `mutation-quota <name>`, unless spark-submit has a name for it. The output of the JVM and the
    workers goes to the file `log`, standard error by default; spark-submit has its own logging. A signal kills the JVM,
    and the block ends with `KeyboardInterrupt`.
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if is_submitted():
        gateway = launch_gateway()  # type: ignore[no-untyped-call]
        spark = _session(settings, _submitted_conf(settings, name, gateway), gateway)
        try:
            with with_operator_advice(settings):
                yield spark
        finally:
            _stop(spark)  # the JVM exits after this process
        return
    archive = None
    if folder := settings.spark.class_archives:
        jars = [
            *Path(pyspark.__file__).parent.glob("jars/*.jar"),
            *spark_jars(settings.spark.jars, s3=settings.storage.is_s3),
        ]
        archive = ClassArchive(Path(folder), name, jars)
    conf = _own_conf(settings, name, archive.options() if archive else "")
    jvm, ended = Jvm(), False
    with killing_on_signal(jvm):
        try:
            gateway = jvm.start(_visible(settings, conf), log)
            gateway.jvm_process = jvm
            spark = _session(settings, conf, gateway)
            try:
                with with_operator_advice(settings):
                    yield spark
            finally:
                if not jvm.has_killed:
                    _stop(spark)
                    with suppress(Py4JError, OSError):
                        gateway.shutdown()
                    ended = jvm.end(_END_SECONDS)
        finally:
            jvm.end()
            # PySpark would call the JVM to stop it, and use it for the next session of this process.
            SparkContext._active_spark_context = SparkContext._gateway = SparkContext._jvm = None  # noqa: SLF001
            SparkSession._instantiatedSession = None  # noqa: SLF001
            if archive:
                archive.save(ended=ended)


def is_submitted() -> bool:
    """Return whether spark-submit runs this program, on the only JVM that it can have."""
    return _SUBMITTED in os.environ


def _session(settings: Settings, conf: SparkConf, gateway: JavaGateway) -> SparkSession:
    if url := settings.kafka.sasl_oauthbearer_token_endpoint_url:
        system = gateway.jvm.java.lang.System
        if system.getProperty(ALLOWED_URLS) is None:  # not an option of the JVM: spark-submit's runs already
            system.setProperty(ALLOWED_URLS, url)
    if name := nameless_user():  # Hadoop's login would ask the system for it, and fail
        users = gateway.jvm.org.apache.hadoop.security.UserGroupInformation
        users.setLoginUser(users.createRemoteUser(name))
    on_interrupt = signal.getsignal(signal.SIGINT)
    context = SparkContext(conf=conf, gateway=gateway)
    if signal.getsignal(signal.SIGINT) is not on_interrupt:
        signal.signal(signal.SIGINT, on_interrupt)  # SparkContext installs its own handler, which kills batches
    # It would print a stack trace when the JVM is killed, whose end is reported by who notices it.
    context._accumulatorServer.handle_error = lambda *_: None  # type: ignore[method-assign]  # noqa: SLF001
    return SparkSession(context)


def _stop(spark: SparkSession) -> None:
    with suppress(Py4JError, OSError), warnings.catch_warnings():  # the JVM may have exited already
        warnings.filterwarnings("ignore", "Unable to cleanly shutdown Spark JVM process", RuntimeWarning)
        spark.stop()


def jvm_pid(spark: SparkSession) -> int:
    """Return the process id of a session's JVM."""
    jvm: Any = spark._jvm  # noqa: SLF001 PySpark has no public access to it
    return int(jvm.java.lang.ProcessHandle.current().pid())


def sign_of_life(spark: SparkSession) -> str | None:
    """Return the name of the sign of life of this process and its JVM; None if it is the JVM of spark-submit."""
    own = _own_jvm(spark)
    return None if own is None else own.sign_of_life.name


def kill_jvm(spark: SparkSession, pid: int) -> None:
    """Kill a session's JVM immediately, even if it does not respond; may be called on any thread."""
    own = _own_jvm(spark)
    if own is not None:
        own.end()
        return
    with suppress(ProcessLookupError):  # the JVM of spark-submit, which runs this process on the same machine
        os.kill(pid, signal.SIGKILL)
    with suppress(Py4JError, OSError):  # the first process of a container ignores that signal
        gateway: Any = spark.sparkContext._gateway  # noqa: SLF001 PySpark has no public access to it
        gateway.jvm.java.lang.Runtime.getRuntime().halt(1)


def _own_jvm(spark: SparkSession) -> Jvm | None:
    gateway = spark.sparkContext._gateway  # noqa: SLF001 PySpark has no public access to it
    return vars(gateway).get("jvm_process")  # not with getattr, which calls the JVM


class HaltTimer:
    """Halts a session's JVM from within after a time, unless it is set again, even if this process is stopped."""

    def __init__(self, spark: SparkSession) -> None:
        """Create the timer; it is not set."""
        jvm: Any = spark._jvm  # noqa: SLF001 PySpark has no public access to it
        invoke, runtime = jvm.java.lang.invoke, jvm.java.lang.Runtime.getRuntime()
        signature = invoke.MethodType.methodType(jvm.java.lang.Void.TYPE, jvm.java.lang.Integer.TYPE)
        halt = invoke.MethodHandles.publicLookup().bind(runtime, "halt", signature)
        status = spark.sparkContext._gateway.new_array(jvm.java.lang.Object, 1)  # type: ignore[union-attr]  # noqa: SLF001
        status[0] = 1
        runnable = jvm.java.lang.Class.forName("java.lang.Runnable")
        bound = invoke.MethodHandles.insertArguments(halt, 0, status)
        self._halt = invoke.MethodHandleProxies.asInterfaceInstance(runnable, bound)
        self._futures = jvm.java.util.concurrent.CompletableFuture
        self._milliseconds = jvm.java.util.concurrent.TimeUnit.MILLISECONDS
        self._halting: Any = None

    def set(self, seconds: float) -> None:
        """Have the JVM halt after a time from now, in place of the last one."""
        later = self._futures.delayedExecutor(round(seconds * 1000), self._milliseconds)
        before, self._halting = self._halting, self._futures.runAsync(self._halt, later)
        if before is not None:
            before.cancel(False)

    def cancel(self) -> None:
        """Let the JVM run, if it still does."""
        with suppress(Py4JError, OSError):
            if self._halting is not None:
                self._halting.cancel(False)


def _submitted_conf(settings: Settings, name: str, gateway: JavaGateway) -> SparkConf:
    conf = SparkConf(loadDefaults=True, _jvm=gateway.jvm)
    given = dict(conf.getAll())
    conf.setAll(list(submitted_properties(settings, given, service=name).items()))
    if given["spark.app.name"] == Path(sys.argv[0]).name:  # spark-submit's default
        conf.setAppName(f"{_PROGRAM} {name}")
    return conf


def _own_conf(settings: Settings, name: str, java_options: str) -> SparkConf:
    if settings.spark.master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    properties = spark_properties(settings, java_options=java_options, service=name)
    return SparkConf(loadDefaults=False).setAll(list(properties.items())).setAppName(f"{_PROGRAM} {name}")


def _visible(settings: Settings, conf: SparkConf) -> SparkConf:
    """Return the properties for the JVM's command line, which all users of the machine can read: none is a secret."""
    hidden = settings.storage.hadoop()
    visible = [
        (key, value)
        for key, value in conf.getAll()
        if key not in hidden and not is_secret(key) and mask_logins(value) == value
    ]
    return SparkConf(loadDefaults=False).setAll(visible)


@contextmanager
def spark_session_with_progress(settings: Settings, name: str, description: str) -> Iterator[SparkSession]:
    """Provide a session for a command that prints a result.

    Standard error tells that Spark is being started, and then how many tasks of what the block does are done.
    """
    with ExitStack() as stack:
        with progress("starting Spark"):
            spark = stack.enter_context(spark_session(settings, name))
        tell = stack.enter_context(progress(description))
        stack.enter_context(background(lambda stop: _count_tasks(spark, tell, description, stop), "count-tasks"))
        yield spark


def _count_tasks(spark: SparkSession, tell: Tell, description: str, stop: threading.Event) -> None:
    tracker = spark.sparkContext.statusTracker()
    with suppress(Py4JError, OSError):  # the JVM may have exited, which the work reports
        while not stop.wait(_UPDATE_SECONDS):
            stages = [tracker.getStageInfo(stage_id) for stage_id in tracker.getActiveStageIds()]
            tasks = sum(stage.numTasks for stage in stages if stage)
            completed = sum(stage.numCompletedTasks for stage in stages if stage)
            if tasks:
                tell(f"{description}: {completed:,} of {tasks:,} tasks")
