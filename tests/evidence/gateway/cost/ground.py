"""The programs of the measurement: a broker with three listeners, and a gateway process in front of each."""

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from jobs.sandbox.broker import HOST, Broker, free_port, with_plaintext_cluster
from jobs.spark.installation import jars_folder
from quota.errors import MutationQuotaError
from quota.kafka.topics.preparation import prepare_topics
from quota.settings import Settings
from quota.wire.protocol import Protocol
from tests.support.wire_client import WireClient

USER, PASSWORD = "alice", "alice-of-the-measurement"

_READY_SECONDS = 60.0
_END_SECONDS = 60.0
_BROKER_MEMORY = "1g"

# The broker advertises the gateway's address to clients of the listener AHEAD; nothing is rewritten for them.
_PROPERTIES = """\
listeners=PLAINTEXT://{{host}}:{{port}},AHEAD://{{host}}:{ahead},SASL://{{host}}:{sasl},\
CONTROLLER://{{host}}:{{controller_port}}
advertised.listeners=PLAINTEXT://{{host}}:{{port}},AHEAD://{{host}}:{ahead_gateway},SASL://{{host}}:{sasl}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,AHEAD:PLAINTEXT,SASL:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT
inter.broker.listener.name=PLAINTEXT
sasl.enabled.mechanisms=PLAIN
fetch.max.bytes=104857600
listener.name.sasl.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required \
user_{user}="{password}";
"""


class Gateway:
    """A process `mutation-quota gateway`."""

    def __init__(self, process: subprocess.Popen[bytes], port: int, log: Path) -> None:
        self._process = process
        self._files = Path("/proc", str(process.pid))
        self.port = port
        self.log = log

    def cpu_seconds(self) -> float:
        """Return the processor time that its threads have taken."""
        nanoseconds = 0
        for each in self._files.glob("task/*/schedstat"):
            nanoseconds += int(each.read_text().split()[0])
        return nanoseconds / 1e9

    def memory(self) -> int:
        """Return its resident memory in bytes."""
        return self._status("VmRSS")

    def peak(self) -> int:
        """Return the peak of its resident memory in bytes, since `forget_peak`."""
        return self._status("VmHWM")

    def forget_peak(self) -> None:
        """Reset the peak to the current memory."""
        (self._files / "clear_refs").write_text("5")

    def _status(self, name: str) -> int:
        lines = (self._files / "status").read_text().splitlines()
        (found,) = [line.split()[1] for line in lines if line.startswith(f"{name}:")]
        return int(found) * 1024


@dataclass(frozen=True, slots=True)
class Ground:
    """The running programs and their ports."""

    settings: Settings
    """Settings of the deployment: its cluster is the broker's own listener."""
    protocol: Protocol
    direct: int
    """Port of the broker's own listener."""
    sasl: int
    """Port of the broker's listener that authenticates."""
    rewriting: Gateway
    """In front of the broker's own listener: it rewrites addresses."""
    ahead: Gateway
    """In front of a listener that advertises this gateway: nothing is rewritten."""
    authenticating: Gateway
    """In front of the listener that authenticates."""

    @property
    def routes(self) -> dict[str, int]:
        """The ports of the three routes without authentication, by the names of the routes."""
        return {
            "direct": self.direct,
            "gateway, nothing rewritten": self.ahead.port,
            "gateway, addresses rewritten": self.rewriting.port,
        }

    def connect(self, port: int) -> WireClient:
        """Connect to one of the ports."""
        return WireClient((HOST, port), self.protocol, "cost")

    @property
    def gateways(self) -> dict[str, Gateway]:
        """The gateways of `routes`."""
        names = list(self.routes)
        return {names[1]: self.ahead, names[2]: self.rewriting}


@contextmanager
def ground(settings: Settings, folder: Path) -> Iterator[Ground]:
    """Run a broker and three gateways inside the block."""
    ahead, sasl, ahead_gateway = free_port(), free_port(), free_port()
    properties = _PROPERTIES.format(ahead=ahead, sasl=sasl, ahead_gateway=ahead_gateway, user=USER, password=PASSWORD)
    jars = jars_folder(settings.broker.jars)
    with ExitStack() as stack:
        broker = stack.enter_context(
            Broker(folder / "broker", jars, extra_properties=properties, java_options=[f"-Xmx{_BROKER_MEMORY}"])
        )
        settings = with_plaintext_cluster(settings, broker.address)
        prepare_topics(settings)

        def gateway(name: str, *options: str) -> Gateway:
            own = [f"kafka.bootstrap_servers={broker.address}", f"storage.root={folder}", *options]
            return stack.enter_context(_running(folder / f"{name}.log", own))

        credentials = ("security_protocol=SASL_PLAINTEXT", "sasl_mechanism=PLAIN", f"sasl_username={USER}")
        yield Ground(
            settings,
            Protocol.of_jar(jars),
            broker.port,
            sasl,
            gateway("rewriting", f"gateway.listeners={free_port()}={broker.address}"),
            gateway("ahead", f"gateway.listeners={ahead_gateway}={HOST}:{ahead}", "gateway.advertised_by=brokers"),
            gateway(
                "authenticating",
                f"gateway.listeners={free_port()}={HOST}:{sasl}",
                *(f"target.{each}" for each in (*credentials, f"sasl_password={PASSWORD}")),
            ),
        )


@contextmanager
def _running(log: Path, options: list[str]) -> Iterator[Gateway]:
    named = [word for each in options for word in ("--set", each)]
    with log.open("wb") as output:
        process = subprocess.Popen([sys.executable, "-m", "jobs", "gateway", *named], stdout=output, stderr=output)
    try:
        yield Gateway(process, _port(process, log), log)
    finally:
        process.terminate()
        try:
            process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _port(process: subprocess.Popen[bytes], log: Path) -> int:
    """Return the port that the process prints when it is ready."""
    deadline = time.monotonic() + _READY_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        ready = [line for line in log.read_text().splitlines() if line.startswith("ready ")]
        if ready:
            return int(ready[0].rpartition(":")[2])
        time.sleep(0.05)
    raise MutationQuotaError(f"the gateway is not ready: {log.read_text()[-500:]}")
