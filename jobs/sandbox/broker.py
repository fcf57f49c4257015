"""The embedded broker: a real single-node Kafka in KRaft mode, on 127.0.0.1 only, for demos and tests."""

import base64
import fcntl
import logging
import os
import random
import re
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache, partial
from pathlib import Path
from typing import Self

from jobs.background import end_with_parent
from jobs.installation import jars_folder, java_program
from jobs.storage.whole_file import write_whole
from quota.errors import BadInput, ClusterError
from quota.kafka.timing import Deadline, Every
from quota.kafka.topics.preparation import prepare_topics
from quota.settings import Settings
from quota.settings.sections import KafkaSettings
from quota.settings.security import TargetSettings

_log = logging.getLogger(__name__)

HOST = "127.0.0.1"
_START_SECONDS = 600.0
"""The longest start: after a kill, a broker reads its topics again, in a minute for each five thousand partitions."""
_SAY_SECONDS = 15.0
_STOP_SECONDS = 30.0
_CLUSTER_ID = "bXV0YXRpb24tcXVvdGEtMQ"
_CHECKPOINT = Path(__file__).with_name("bootstrap.checkpoint")
"""The first records of a new cluster's metadata: the features of Kafka 4.4, as its StorageTool writes them."""
_METADATA = "__cluster_metadata-0/00000000000000000000-0000000000.checkpoint"
"""The place of that file in a folder of logs."""
_IDENTITY = "meta.properties"
_IDENTITY_LINES = "version=1\ncluster.id={cluster}\nnode.id={node}\ndirectory.id={folder}\n"
_LOCK = "running"
_PORTS = range(20_000, 32_768)
"""Ports below those of outgoing connections, one of which could use a port before the broker listens on it."""
JAVA_OPTIONS = (
    "-Xms64m",
    "-Xmx256m",
    "-XX:MinHeapFreeRatio=20",
    "-XX:MaxHeapFreeRatio=40",
    "-XX:TieredStopAtLevel=1",
)
"""The JVM's options: its heap, of which 70 MB are alive, stays near that.

Without the second compiler, which pays after minutes of load, a start takes half the work.
"""

_PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@{host}:{controller_port}
listeners=PLAINTEXT://{host}:{port},CONTROLLER://{host}:{controller_port}
advertised.listeners=PLAINTEXT://{host}:{port}
controller.listener.names=CONTROLLER
log.dirs={data}/logs
auto.create.topics.enable=false
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.num.partitions=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
# no records without content twice a second, each of which is synced to the disk: half of an idle broker's work
metadata.max.idle.interval.ms=0
# the jobs' largest record and its batch; Spark's fetch size is the same
message.max.bytes=67108864
replica.fetch.max.bytes=67108864
log.cleaner.dedupe.buffer.size=16777216
"""

_LOG4J = """\
appender.file.type=File
appender.file.name=file
appender.file.fileName={data}/broker.log
appender.file.layout.type=PatternLayout
appender.file.layout.pattern=[%d] %p %m (%c)%n
appender.request.type=RollingFile
appender.request.name=request
appender.request.fileName={data}/kafka-request.log
appender.request.filePattern={data}/kafka-request.log.%d{{yyyy-MM-dd-HH}}
appender.request.createOnDemand=true
appender.request.layout.type=PatternLayout
appender.request.layout.pattern=[%d] %p %m (%c)%n
appender.request.policy.type=TimeBasedTriggeringPolicy
rootLogger.level=WARN
rootLogger.appenderRef.file.ref=file
logger.request.name=kafka.request.logger
logger.request.level=WARN
logger.request.additivity=false
logger.request.appenderRef.request.ref=request
"""
"""Kafka's default configuration with a request log, which is written if its level is set to DEBUG (KIP-412)."""


class Broker:
    """A broker process and its data; as a context manager it runs inside the block."""

    def __init__(
        self,
        data: Path,
        jars: Path,
        port: int = 0,
        extra_properties: str = "",
        *,
        java_options: Sequence[str] | None = None,
    ) -> None:
        """Prepare a broker, whose folder of data is created, or reused; port 0 is any free one.

        `extra_properties` are lines of `server.properties` that override the defaults; {host}, {port} and
        {controller_port} are replaced. `java_options` replace `JAVA_OPTIONS`.
        """
        self._java_options = JAVA_OPTIONS if java_options is None else java_options
        self._data = data.resolve()
        self._output_file = self._data / "broker.out"
        self._log_file = self._data / "broker.log"
        self._properties = self._data / "server.properties"
        self._jars = jars
        self._extra_properties = extra_properties
        self.port = port or free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self._logged = 0
        """The size of the log when the process was started."""
        self._lock: int | None = None

    @property
    def address(self) -> str:
        """The bootstrap server, host:port."""
        return f"{HOST}:{self.port}"

    @property
    def is_running(self) -> bool:
        """Whether its process runs."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """The process id of the running broker."""
        if self._process is None:
            raise ClusterError("the broker is not running")
        return self._process.pid

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is KeyboardInterrupt:  # it was still starting, or Ctrl-C was pressed twice
            self.kill()
        else:
            self.stop()

    def start(self) -> None:
        """Start the broker, and return when clients can connect."""
        self.prepare()
        self.launch()
        self.wait_until_listening()

    def prepare(self) -> None:
        """Write the configuration, and prepare the folder of a new broker's data."""
        if is_listening(self.port):
            raise BadInput(f"port {self.port} is in use; choose another with --port, or 0 for any free port")
        self._claim()
        self._configure()
        if not (self._data / "logs" / _IDENTITY).exists():
            self._format()

    def launch(self) -> None:
        """Start the process of a prepared broker. The kernel stops it when the calling thread ends."""
        end = partial(end_with_parent, signal.SIGTERM, os.getpid())
        self._logged = self._log_file.stat().st_size if self._log_file.exists() else 0
        with self._output_file.open("wb") as output:
            self._process = subprocess.Popen(
                [
                    str(java_program()),
                    "-XX:+UseSerialGC",
                    *self._java_options,
                    f"-Dlog4j2.configurationFile={self._data}/log4j2.properties",
                    "-cp",
                    f"{self._jars}/*",
                    "kafka.Kafka",
                    str(self._properties),
                ],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                pass_fds=[] if self._lock is None else [self._lock],  # so the folder is claimed until the process ends
                start_new_session=True,  # Ctrl-C must not reach the broker, which is stopped after its clients
                preexec_fn=end if sys.platform == "linux" else None,  # noqa: PLW1509 one system call
            )

    def wait_until_listening(self) -> None:
        """Wait until clients can connect; kill a broker that does not start."""
        problem = f"the broker is not listening after {_START_SECONDS:.0f} s; see {self._log_file}"
        say = Every(_SAY_SECONDS, at_once=False)

        def check() -> None:
            self.check()
            if say.is_due():
                _log.info("the broker is still starting; after a kill it reads its topics again: %s", self._log_file)

        try:
            wait_until(lambda: is_listening(self.port), check, _START_SECONDS, problem)
        except BaseException:
            self.kill()
            raise

    def kill(self) -> None:
        """Kill the broker, whose next start recovers its data."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
        self._release()

    def stop(self) -> None:
        """Stop the broker; kill it if it does not end in time."""
        if self.is_running and self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                _log.warning("broker %d does not exit, killing it", self._process.pid)
        self.kill()

    def check(self) -> None:
        """Check that the broker still runs."""
        if not self.is_running:
            raise ClusterError(f"the broker {self._end()}; see {self._log_file}")

    def _end(self) -> str:
        """Return how the process ended, with the cause of the last error in its log."""
        code = self._process.returncode if self._process else 0
        if code < 0:
            return f"was killed by {signal.Signals(-code).name}"
        with suppress(OSError), self._log_file.open("rb") as log:
            log.seek(self._logged)
            if (error := last_error(log.read().decode(errors="replace"))) is not None:
                return f"has exited: {error}"
        output = self._output_file.read_text(errors="replace").splitlines() if self._output_file.exists() else []
        return f"has exited with code {code}: {output[-1] if output else 'no output'}"

    def _claim(self) -> None:
        """Lock the folder of the data, which a second broker would destroy: Kafka's own lock comes too late."""
        self._release()
        try:
            self._data.mkdir(parents=True, exist_ok=True)
            self._lock = os.open(self._data / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._release()
            raise BadInput(
                f"another broker uses {self._data}: stop that mutation-quota run or broker first, or choose another "
                "storage.root or --data"
            ) from None
        except OSError as error:
            raise BadInput(f"cannot create the data folder {self._data}: {error.strerror}") from None

    def _release(self) -> None:
        lock, self._lock = self._lock, None
        if lock is not None:
            os.close(lock)

    def _configure(self) -> None:
        controller_port = free_port()
        self._properties.write_text(
            (_PROPERTIES + self._extra_properties).format(
                host=HOST, port=self.port, controller_port=controller_port, data=self._data
            )
        )
        (self._data / "log4j2.properties").write_text(_LOG4J.format(data=self._data))

    def _format(self) -> None:
        """Prepare the folder of a new broker's data, as Kafka's StorageTool does, without its JVM."""
        logs = self._data / "logs"
        (logs / _METADATA).parent.mkdir(parents=True, exist_ok=True)
        write_whole(logs / _METADATA, _CHECKPOINT.read_bytes())
        node = re.findall(r"^node\.id=(\d+)$", self._properties.read_text(), re.MULTILINE)[-1]
        folder = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        # It is written last, because with it the folder is prepared.
        write_whole(logs / _IDENTITY, _IDENTITY_LINES.format(node=node, cluster=_CLUSTER_ID, folder=folder))


_ERROR = re.compile(r"^\[[^]]*\] (?:ERROR|FATAL) (.*) \(\S+\)$", re.MULTILINE)
_CAUSE = re.compile(r"^(?:Caused by: )?[\w.$]+(?:Exception|Error): (.+)$", re.MULTILINE)


def last_error(log: str) -> str | None:
    """Return the last error in a broker's log with the innermost cause of its stack trace; None if there is none.

    Of the causes that repeat the innermost one, it is that which says most, such as the address.
    """
    errors = list(_ERROR.finditer(log))
    if not errors:
        return None
    trace = re.split(r"^\[", log[errors[-1].end() :], maxsplit=1, flags=re.MULTILINE)[0]
    causes = [cause[1].rstrip(".") for cause in _CAUSE.finditer(trace)]
    detail = max((cause for cause in causes if causes[-1] in cause), key=len, default="")
    return ": ".join(filter(None, [errors[-1][1].rstrip("."), detail]))


def free_port() -> int:
    """Return a port of 127.0.0.1 on which nothing listens now, and which this process was not given before."""
    for port in _untried_ports():
        with socket.socket() as probe, suppress(OSError):
            probe.bind((HOST, port))
            return port
    raise ClusterError(f"no free port was found on {HOST} from {_PORTS.start} to {_PORTS.stop - 1}")


@cache
def _untried_ports() -> Iterator[int]:
    """Return the process's one sequence of all ports, in a random order; most programs need none of it."""
    return iter(random.SystemRandom().sample(_PORTS, len(_PORTS)))


def wait_until(is_ready: Callable[[], bool], check: Callable[[], None], seconds: float, problem: str) -> None:
    """Wait until something is ready; `check` raises an error if it never will be."""
    deadline = Deadline(seconds)
    while not is_ready():
        check()
        if deadline.has_passed:
            raise ClusterError(problem)
        time.sleep(0.05)


def is_listening(port: int) -> bool:
    """Return whether something listens on a port of 127.0.0.1."""
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex((HOST, port)) == 0


@contextmanager
def embedded_broker(
    settings: Settings, port: int, data: Path | None = None, *, java_options: Sequence[str] | None = None
) -> Iterator[Broker]:
    """Run a broker inside the block, with the topics prepared; port 0 is any free one."""
    folder = data or settings.storage.local_folder("broker")
    broker = Broker(folder, jars_folder(settings.broker.jars), port, java_options=java_options)
    with broker:
        prepare_topics(with_plaintext_cluster(settings, broker.address))
        yield broker


def with_plaintext_cluster(settings: Settings, bootstrap_servers: str) -> Settings:
    """Return the settings for a different cluster without TLS and SASL, which is also the target cluster."""
    kafka = KafkaSettings(bootstrap_servers=bootstrap_servers, timeout_seconds=settings.kafka.timeout_seconds)
    return settings.model_copy(update={"kafka": kafka, "target": TargetSettings()})
