"""The JVM that a process starts for Spark.

PySpark starts it and connects to it; this class takes the place of the process that it starts, because PySpark does not
return it before the JVM is ready: an interrupt during that time would leave it running.
"""

import fcntl
import hashlib
import logging
import os
import pwd
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from pathlib import Path
from secrets import token_hex
from typing import Any

from py4j.java_gateway import JavaGateway  # type: ignore[import-untyped]
from pyspark import SparkConf, java_gateway
from pyspark.errors import PySparkRuntimeError

from jobs.installation import java_program
from jobs.signals import Killable
from quota.errors import MutationQuotaError

_OPENED = (
    *(f"java.base/java.{part}" for part in ("lang", "lang.invoke", "lang.reflect", "io", "net", "nio")),
    *(f"java.base/java.util{part}" for part in ("", ".concurrent", ".concurrent.atomic")),
    *(f"java.base/{part}" for part in ("jdk.internal.ref", "sun.nio.ch", "sun.nio.cs")),
    "java.base/sun.util.calendar",
    "java.security.jgss/sun.security.krb5",
)
_OPTIONS = (
    "-XX:+IgnoreUnrecognizedVMOptions",
    *(f"--add-opens={package}=ALL-UNNAMED" for package in _OPENED),
    "-Dio.netty.tryReflectionSetAccessible=true",
    "-Dio.netty.allocator.type=pooled",
    "-Dio.netty.handler.ssl.defaultEndpointVerificationAlgorithm=NONE",
    "--sun-misc-unsafe-memory-access=allow",
    "--enable-native-access=ALL-UNNAMED",
    "-Dderby.connection.requireAuthentication=false",
)
"""What Spark 4.2 needs of Java, without what Java warns of, and Spark does not use here.

That is an incubator module for its machine learning, and the package sun.security.action, which Java 25 lacks.
"""

_MAIN = "org.apache.spark.deploy.SparkSubmit"

_TEMPORARY = Path("/tmp")  # noqa: S108 new folders are created in it; a longer path could exceed the limit of a socket

_SESSION = 3
"""The index of the session in `/proc/PID/stat`, among the fields after the name."""

_log = logging.getLogger(__name__)

SILENT = "-Xlog:cds=off -Xlog:cds+dynamic=off -Xlog:class+path=off"
"""Options of a JVM that logs nothing about its archive."""


class SignOfLife:
    """A socket without a peer that this process and its JVM keep open, so that the kernel tells whether either runs.

    Its name is valid in one network namespace (Linux), and taken until the last of them has ended.
    """

    def __init__(self) -> None:
        self.name: str | None = token_hex(16)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            self._socket.bind(_address(self.name))
        except OSError:  # not on Linux
            self.name = None

    def fileno(self) -> int:
        """Return the file descriptor, for the JVM to inherit."""
        return self._socket.fileno()

    def close(self) -> None:
        """Close the socket in this process."""
        self._socket.close()


def is_alive(name: str) -> bool:
    """Return whether a process with the `SignOfLife` of this name runs, in the network namespace of this process."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(_address(name))
        except ConnectionRefusedError:
            return False
        except OSError:
            return True  # it may
    return True


def _address(name: str) -> str:
    return f"\0mutation-quota-{name}"


class TemporaryFolder:
    """The folder of a JVM's temporary files, locked as long as this process or the JVM runs."""

    def __init__(self) -> None:
        """Create a folder, and remove those of programs that were killed with their JVM: some 20 MB each."""
        for left in _TEMPORARY.glob("mutation-quota-spark-*"):
            with suppress(OSError):  # it is locked
                if left.lstat().st_uid == os.geteuid():
                    self._lock(left, fcntl.LOCK_EX)
                    self.remove()
        new = Path(tempfile.mkdtemp(prefix="spark-", dir=_TEMPORARY))
        self._lock(new, fcntl.LOCK_SH)
        # Under its last name, other programs remove it once it is not locked.
        self.path = new.rename(new.with_name(f"mutation-quota-{new.name}"))

    def _lock(self, path: Path, how: int) -> None:
        self._file, self.path = os.open(path, os.O_DIRECTORY | os.O_NOFOLLOW), path
        try:
            fcntl.flock(self._file, how | fcntl.LOCK_NB)
        except OSError:
            os.close(self._file)
            raise

    def fileno(self) -> int:
        """Return the file descriptor, for the JVM to inherit."""
        return self._file

    def remove(self) -> None:
        """Remove the folder with its files, once."""
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._file)


class Jvm(Killable):
    """A JVM in its own session, which shields it and its workers from Ctrl-C, so that queries can be stopped first."""

    def __init__(self) -> None:
        self.sign_of_life = SignOfLife()
        self._process: subprocess.Popen[bytes] | None = None
        self._folder: TemporaryFolder | None = None

    def start(self, conf: SparkConf, log: Path | None) -> JavaGateway:
        """Start the JVM and return the gateway to it; the caller ends it after an error.

        All users of the machine can read the properties. The output of the JVM and its workers goes to the file `log`,
        standard error by default.
        """
        java_program()  # otherwise Spark would report the missing Java in its own words
        logging.getLogger().addFilter(_not_of_py4j)
        if log is not None:
            log.parent.mkdir(parents=True, exist_ok=True)
        popen, vars(java_gateway)["Popen"] = vars(java_gateway)["Popen"], self._launch
        try:
            with nullcontext() if log is None else log.open("ab") as output:
                return java_gateway.launch_gateway(  # type: ignore[no-untyped-call]
                    conf, {"stdout": output, "stderr": output, "start_new_session": True}
                )
        except PySparkRuntimeError:
            code = None if self._process is None else self._process.returncode
            raise MutationQuotaError(
                f"Spark's JVM ({java_program()}) has exited during its start (exit {code}); "
                f"{'the lines before this one say' if log is None else f'the end of {log} says'} why"
            ) from None
        finally:
            vars(java_gateway)["Popen"] = popen

    def _launch(
        self,
        command: Sequence[str],
        env: Mapping[str, str],
        **options: Any,  # noqa: ANN401 the options of Popen
    ) -> subprocess.Popen[bytes]:
        """Start the process in the way of `spark-submit`, which PySpark calls."""
        spark_submit, *arguments = command
        home = Path(spark_submit).parent.parent
        variables = {"SPARK_HOME": str(home), "PYTHONHASHSEED": "0"}
        # It ignores Ctrl-C, which does not reach another session; threads may hold locks.
        options.pop("preexec_fn", None)
        conf = {name: value for name, equals, value in (text.partition("=") for text in arguments) if equals}
        if libraries := conf.get("spark.driver.extraLibraryPath"):
            variables["LD_LIBRARY_PATH"] = os.pathsep.join(filter(None, [libraries, env.get("LD_LIBRARY_PATH")]))
        folder = self._folder = TemporaryFolder()
        java = [*java_command(home, conf), f"-Djava.io.tmpdir={folder.path}"]
        if name := nameless_user():  # for whom Java has no home, and a name that no path may have
            java += [f"-Duser.home={folder.path}", f"-Duser.name={name}"]
        java += [_MAIN, *arguments]
        # Its own processes inherit only their standard streams from Java.
        options["pass_fds"] = [self.sign_of_life.fileno(), folder.fileno()]
        self._process = subprocess.Popen(java, env={**env, **variables}, **options)
        if self.has_killed:  # by a signal that arrived before there was a process
            self.kill()
        return self._process

    def end(self, seconds: float = 0.0) -> bool:
        """Kill the JVM and its processes, and remove its temporary files; return whether it exited by itself.

        It has this time for that, after its gateway was shut down.
        """
        process, ended = self._process, False
        try:
            if process is not None and process.stdin is not None:
                with suppress(OSError):
                    process.stdin.close()  # the JVM waits for the end of its input
                with suppress(subprocess.TimeoutExpired):
                    process.wait(seconds)
                ended = process.returncode == 0
                self.kill()
                process.wait()
        finally:  # also if Ctrl-C interrupts the wait
            self.sign_of_life.close()
            folder, self._folder = self._folder, None  # another thread may end it, too
            if folder is not None:
                folder.remove()
        return ended

    def kill(self) -> None:
        """Kill the JVM, and then its Python workers, which have their own process groups; may be called at any time."""
        process = self._process
        if process is None:
            return
        with suppress(ProcessLookupError):
            if process.returncode is None:  # otherwise the number may belong to another process
                os.killpg(process.pid, signal.SIGKILL)
        for pid in _session_members(process.pid):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def java_command(home: Path, conf: Mapping[str, str]) -> list[str]:
    """Return Java with its options for a driver with these properties, as Spark's own launcher has them.

    `spark-submit` starts another JVM to find them out, which takes half a second.
    """
    folder = os.environ.get("SPARK_CONF_DIR") or home / "conf"
    path = [
        conf.get("spark.driver.extraClassPath", ""),
        str(folder),
        *map(str, home.glob("jars/slf4j-api-*")),
        f"{home}/jars/*",
    ]
    return [
        str(java_program()),
        "-cp",
        os.pathsep.join(filter(None, path)),
        *shlex.split(os.environ.get("SPARK_SUBMIT_OPTS", "")),
        f"-Xmx{conf.get('spark.driver.memory', '1g')}",
        *shlex.split(conf.get("spark.driver.defaultJavaOptions", "")),
        *shlex.split(conf.get("spark.driver.extraJavaOptions", "")),
        *_OPTIONS,
    ]


def nameless_user() -> str | None:
    """Return a name for the user of this process if the system knows none, as in a container with a random user id."""
    try:
        pwd.getpwuid(os.geteuid())
    except KeyError:
        return os.environ.get("HADOOP_USER_NAME") or str(os.geteuid())
    return None


def _not_of_py4j(record: logging.LogRecord) -> bool:
    """Return whether a record of the root logger is not from PySpark, which also raises the errors that it logs."""
    return not {"py4j", "pyspark"}.intersection(Path(record.pathname).parts)


def _session_members(session: int) -> Iterator[int]:
    """Yield the processes of a session, if the system lists them (Linux); elsewhere they exit by themselves."""
    if sys.platform != "linux":
        return
    for folder in Path("/proc").iterdir():
        with suppress(OSError, ValueError, IndexError):
            fields = Path(folder, "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
            if int(fields[_SESSION]) == session:
                yield int(folder.name)


class ClassArchive:
    """The archive of a program, for these jars and this Java, in a folder of archives."""

    def __init__(self, folder: Path, program: str, jars: Iterable[Path]) -> None:
        self._name = program.replace(" ", "-")
        files = [java_program().resolve(), *sorted(jars)]
        facts = [(str(file), file.stat().st_size, file.stat().st_mtime_ns) for file in files]
        self._file = folder / f"{self._name}-{hashlib.sha256(repr(facts).encode()).hexdigest()[:16]}.jsa"
        self._written = self._file.with_suffix(f".{token_hex(4)}")

    def options(self) -> str:
        """Return the JVM's options, quoted for Spark: to use the archive, or to write it at the end."""
        if self._file.exists():
            return f'"-XX:SharedArchiveFile={self._file}" {SILENT}'
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            _log.warning("no class archive, so starts take longer: %s", error)
            return ""
        return f'"-XX:ArchiveClassesAtExit={self._written}" {SILENT}'

    def save(self, *, ended: bool) -> None:
        """Replace older archives with the one that the JVM wrote; discard it if the JVM did not exit by itself."""
        try:
            if ended and self._written.exists():
                for older in self._file.parent.glob(f"{self._name}-{'?' * 16}.jsa"):
                    older.unlink(missing_ok=True)
                self._written.rename(self._file)
            self._written.unlink(missing_ok=True)
        except OSError as error:
            _log.warning("the class archive was not saved: %s", error)
