"""The clients of `run`: simulated tenants of the request topic, and unmodified Kafka clients of the gateway.

The tenants are well-behaved ones, an old client, and one that ignores throttle times. The unmodified clients, which the
gateway throttles as Kafka would, each create and delete a topic again and again.
"""

import random
import re
import subprocess
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from jobs.installation import jars_folder, java_program
from quota.kafka.librdkafka import reason
from quota.kafka.quotas.log import read_log
from quota.kafka.quotas.writer import write_record
from quota.kafka.requests_and_answers import RequestWriter
from quota.records.decision import Decision
from quota.records.entity import QuotaEntity
from quota.records.quota_log import QuotaRecord
from quota.records.request import ANONYMOUS, MutationRequest, Operation, TopicMutation
from quota.settings import Settings

KAFKA_TOPICS, LIBRDKAFKA = "kafka-topics.sh", "librdkafka"
"""The client-ids. All users are ANONYMOUS, since the embedded broker does not authenticate clients."""

_JVM = ("-Xmx64m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
"""Options of a JVM that runs for less than two seconds."""
_PAUSE_SECONDS = 10.0
"""The time between two calls of kafka-topics.sh, each of which uses a second of processor time."""
_TIMEOUT_SECONDS = 60.0
_DONE = {KafkaError.TOPIC_ALREADY_EXISTS, KafkaError.UNKNOWN_TOPIC_OR_PART}
"""The errors of a change that an earlier run has made."""
_OUTPUT = re.compile(r"^(Created topic .*|Error while executing topic command : .*)$", re.MULTILINE)


class KafkaTopics:
    """Kafka's own tool, which does not retry, but prints the error."""

    name = KAFKA_TOPICS
    _TOPIC = "made-by-kafka-topics"

    def __init__(self, jars: Path, address: str, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        config = folder / "kafka-topics.properties"
        config.write_text(f"client.id={self.name}\n")
        java = (str(java_program()), *_JVM, "-cp", f"{jars}/*", "org.apache.kafka.tools.TopicCommand")
        self._command = [*java, "--bootstrap-server", address, "--command-config", str(config)]
        self._changes = (
            ["--create", "--if-not-exists", "--topic", self._TOPIC, "--partitions", "20"],
            ["--delete", "--if-exists", "--topic", self._TOPIC],
        )
        self._output = folder / "kafka-topics.out"
        self._process: subprocess.Popen[bytes] | None = None
        self._next_at = 0.0

    def poll(self, now: float) -> str | None:
        """Start it if it is due; return its output if it has exited."""
        if self._process is None:
            if now >= self._next_at:
                with self._output.open("wb") as file:  # a pipe that is read at the end would block at 64 KB
                    self._process = subprocess.Popen(
                        [*self._command, *self._changes[0]],
                        stdin=subprocess.DEVNULL,
                        stdout=file,
                        stderr=subprocess.STDOUT,
                        start_new_session=True,  # Ctrl-C is handled by the program, which stops this process
                    )
            return None
        if self._process.poll() is None:
            return None
        output = self._output.read_text(errors="replace")
        did, match = self._changes[0][0], _OUTPUT.search(output)
        if self._process.returncode == 0:
            self._changes = self._changes[::-1]
        self._process, self._next_at = None, now + _PAUSE_SECONDS
        return f"{did}: {match[1] if match else output.strip() or 'done'}"

    def close(self) -> None:
        """Kill the process if it runs."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()


class Librdkafka:
    """librdkafka's AdminClient, whose old version of the protocol is never rejected: it is muted instead."""

    name = LIBRDKAFKA
    _TOPIC = "made-by-librdkafka"

    def __init__(self, address: str) -> None:
        self._admin = AdminClient({"bootstrap.servers": address, "client.id": self.name, "log_level": 2})
        self._creates = True
        self._call: Future[None] | None = None
        self._since = 0.0

    def poll(self, now: float) -> str | None:
        """Start the next call, or return the result of the last one with its duration if it has ended."""
        if self._call is None:
            self._call, self._since = self._begin(), now
            return None
        if not self._call.done():
            return None
        call, self._call = self._call, None
        error = call.exception()
        did = "create" if self._creates else "delete"
        if isinstance(error, KafkaException) and error.args[0].code() not in _DONE:
            return f"{did}: {reason(error)}"
        self._creates = not self._creates
        return f"{did}: done after {now - self._since:.1f} s"

    def close(self) -> None:
        """Abandon the current call."""
        self._call = None

    def _begin(self) -> Future[None]:
        if self._creates:
            calls = self._admin.create_topics([NewTopic(self._TOPIC, 10)], request_timeout=_TIMEOUT_SECONDS)
        else:
            calls = self._admin.delete_topics([self._TOPIC], request_timeout=_TIMEOUT_SECONDS)
        return calls[self._TOPIC]


def unmodified_clients(settings: Settings, address: str) -> list[KafkaTopics | Librdkafka]:
    """Return the clients of the gateway at an address."""
    jars, folder = jars_folder(settings.broker.jars), settings.storage.local_folder("clients")
    return [KafkaTopics(jars, address, folder), Librdkafka(address)]


_NEW_API, _OLD_API = 7, 5
_SEED = 599


@dataclass(slots=True)
class SimulatedClient:
    """A client: its requests, their interval, and whether it waits for its throttle time."""

    user: str
    client_id: str
    requests_per_second: float
    topics: int
    partitions: int
    api_version: int = _NEW_API
    honors_throttle: bool = True
    next_at: float = 0.0
    """The time of the next request [s since the epoch]."""
    muted_until: float = field(default=0.0, init=False)
    """The end of its throttle time [s since the epoch]."""


def simulated_clients() -> list[SimulatedClient]:
    """Return five tenants with different behaviour."""
    return [
        SimulatedClient("orders", "order-service", 2, topics=1, partitions=3),
        SimulatedClient("payments", "ledger", 1, topics=2, partitions=6),
        SimulatedClient("etl", "nightly-batch", 0.5, topics=12, partitions=8),
        SimulatedClient("legacy", "old-admin", 1, topics=1, partitions=12, api_version=_OLD_API),
        SimulatedClient("rogue", "loop", 5, topics=3, partitions=20, honors_throttle=False),
    ]


def set_tenant_quotas(settings: Settings) -> None:
    """Set a quota of 10 mutations/s for every user, more for the nightly batch, and less for unmodified clients.

    Only a new quota log gets them: a quota that was changed or removed since the first run stays so.
    """
    if read_log(settings, with_entries=True).entries:
        return
    comment = "tenants of mutation-quota run"
    write_record(settings, QuotaRecord(QuotaEntity(None), 10.0, comment=comment))
    for user, client_id, rate in (
        ("etl", "nightly-batch", 20.0),
        (ANONYMOUS, KAFKA_TOPICS, 1.0),
        (ANONYMOUS, LIBRDKAFKA, 2.0),
    ):
        write_record(settings, QuotaRecord(QuotaEntity(user, client_id), rate, comment=comment))


class Traffic:
    """The tenants' requests; callers pass the time (seconds since the epoch) and the decisions."""

    def __init__(self, writer: RequestWriter, clients: list[SimulatedClient]) -> None:
        self._writer = writer
        self._tenants = {(tenant.user, tenant.client_id): tenant for tenant in clients}
        self._random = random.Random(_SEED)  # noqa: S311 traffic, not secrets
        self._sent = 0

    def send_due(self, now: float) -> None:
        """Send a request for each tenant that is due and not throttled."""
        for tenant in self._tenants.values():
            if now < tenant.next_at or (tenant.honors_throttle and now < tenant.muted_until):
                continue
            self._writer.send(self._request(tenant))
            tenant.next_at = now + self._random.expovariate(tenant.requests_per_second)

    def on_decision(self, decision: Decision, now: float) -> None:
        """Mute the tenant for the throttle time of a decision."""
        tenant = self._tenants.get((decision.user, decision.client_id))
        if tenant is not None:
            tenant.muted_until = max(tenant.muted_until, now + decision.throttle_time_ms / 1000)

    def _request(self, tenant: SimulatedClient) -> MutationRequest:
        self._sent += 1
        return MutationRequest(
            request_id=f"{tenant.client_id}-{self._sent}",
            user=tenant.user,
            client_id=tenant.client_id,
            operation=Operation.CREATE_TOPICS,
            api_version=tenant.api_version,
            apply=False,  # the requests are only decided
            topics=[
                TopicMutation(f"{tenant.user}-{self._sent}-{number}", tenant.partitions)
                for number in range(tenant.topics)
            ],
        )
