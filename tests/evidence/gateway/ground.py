"""One broker for both sides: users with Kafka's own quota, and users of the gateway in front of the whole job."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from jobs.sandbox.broker import HOST, Broker, free_port, with_plaintext_cluster
from jobs.spark.installation import jars_folder
from quota.errors import MutationQuotaError
from quota.kafka.topics.preparation import prepare_topics
from quota.settings import Settings, load_settings
from quota.wire.protocol import Protocol
from tests.evidence.gateway.sides import USERS, Side, password_of
from tests.evidence.gateway.users import WINDOW_NUM, add_users, set_quotas
from tests.support.deployment import make_deployment
from tests.support.running_job import running
from tests.support.waiting import until
from tests.support.wire_client import WireClient

_ADMIN, _ADMIN_PASSWORD = "admin", "admin-of-the-proof"
_WARM_UPS = 10
_TIMED_OUT = 7
_START_SECONDS = 240
_SECONDS = 30

_PROPERTIES = """\
listeners=PLAINTEXT://{{host}}:{{port}},SASL_PLAINTEXT://{{host}}:{sasl_port},CONTROLLER://{{host}}:{{controller_port}}
advertised.listeners=PLAINTEXT://{{host}}:{{port}},SASL_PLAINTEXT://{{host}}:{sasl_port}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT
inter.broker.listener.name=PLAINTEXT
sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256
listener.name.sasl_plaintext.plain.sasl.jaas.config=\
org.apache.kafka.common.security.plain.PlainLoginModule required {users};
listener.name.sasl_plaintext.scram-sha-256.sasl.jaas.config=\
org.apache.kafka.common.security.scram.ScramLoginModule required;
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:ANONYMOUS;User:{admin}
controller.quota.window.num={window_num}
auto.create.topics.enable=true
"""


@dataclass(frozen=True, slots=True)
class Ground:
    """The cluster, the job, the gateway and the two sides on which programs run."""

    folder: Path
    jars: Path
    protocol: Protocol
    direct: Side
    gateway: Side
    admin: AdminClient
    """Admin client of a user without a quota, at the broker."""
    settings: Settings
    """The deployment of the job and the gateway."""
    check: Callable[[], None]
    """Raises MutationQuotaError if the job or the gateway has ended."""

    @property
    def sides(self) -> tuple[Side, Side]:
        """The broker's side, and the gateway's."""
        return self.direct, self.gateway

    def decisions(self) -> int:
        """Return the number of decisions that the job has made."""
        topic = self.settings.topics.decisions
        partitions = self.admin.list_topics(topic, _SECONDS).topics[topic].partitions
        asked = {TopicPartition(topic, number): OffsetSpec.latest() for number in partitions}
        return sum(future.result(_SECONDS).offset for future in self.admin.list_offsets(asked).values())


@contextmanager
def ground(folder: Path) -> Iterator[Ground]:
    """Run broker, job and gateway inside the block."""
    settings = load_settings([f"storage.root={folder}", "spark.master=local[2]"], environment={})
    sasl_port, gateway_port = free_port(), free_port()
    names = [f"{side}-{number:03}" for side in ("direct", "gateway") for number in range(USERS)]
    users = " ".join(f'user_{name}="{password_of(name)}"' for name in names)
    properties = _PROPERTIES.format(
        sasl_port=sasl_port, users=f'user_{_ADMIN}="{_ADMIN_PASSWORD}" {users}', admin=_ADMIN, window_num=WINDOW_NUM
    )
    jars = jars_folder(settings.broker.jars)
    with ExitStack() as stack:
        broker = stack.enter_context(
            Broker(folder / "broker", jars, extra_properties=properties, java_options=["-Xmx512m"])
        )
        settings = make_deployment(with_plaintext_cluster(settings, broker.address), "conformance", folder)
        sasl = f"{HOST}:{sasl_port}"
        direct, gateway = Side("direct", sasl, sasl), Side("gateway", f"{HOST}:{gateway_port}", sasl)
        admin = AdminClient({"bootstrap.servers": broker.address, "log_level": 2})
        protocol = Protocol.of_jar(jars)
        prepare_topics(settings)
        add_users(admin, (direct, gateway))
        set_quotas(settings, protocol, direct, gateway)
        given = ("--set", "spark.master=local[2]", "--set", f"quota.window_num={WINDOW_NUM}")
        enforce = stack.enter_context(running(settings, folder / "enforce.log", "enforce", *given))
        target = {
            "kafka.target_servers": sasl,
            "target.security_protocol": "SASL_PLAINTEXT",
            "target.sasl_mechanism": "PLAIN",
            "target.sasl_username": _ADMIN,
            "target.sasl_password": _ADMIN_PASSWORD,
            "gateway.first_port": gateway_port,
        }
        options = [part for name, value in target.items() for part in ("--set", f"{name}={value}")]
        serving = stack.enter_context(running(settings, folder / "gateway.log", "gateway", *options))
        processes = {"enforce": enforce, "gateway": serving}

        def check() -> None:
            for name, process in processes.items():
                if process.poll() is not None:
                    output = (folder / f"{name}.log").read_text(errors="replace")
                    raise MutationQuotaError(f"{name} has ended: {output[-2000:]}")

        _await(check, folder / "enforce.log", "running: enforce")
        _await(check, folder / "gateway.log", "ready ")
        found = Ground(folder, jars, protocol, direct, gateway, admin, settings, check)
        _warm_up(found)
        yield found


def _await(check: Callable[[], None], log: Path, text: str) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while text not in log.read_text(errors="replace"):
        check()
        if time.monotonic() > deadline:
            raise MutationQuotaError(f"{log.name} has no {text!r} after {_START_SECONDS} s")
        time.sleep(0.1)


def _warm_up(on: Ground) -> None:
    """Have both sides create topics, several at once, so that their first observations are not slow.

    The job's first batch may take longer than the gateway waits for a decision.
    """
    deadline = time.monotonic() + _START_SECONDS

    def create(side: Side, number: int) -> None:
        user, decided = side.user(USERS - 10 - number), 0
        with WireClient(side.server, on.protocol, "warm-up") as client:
            client.authenticate(user, password_of(user))
            while decided < WINDOW_NUM:
                topic = {"name": side.topic(f"{number}-{decided}"), "numPartitions": 1, "replicationFactor": 1}
                answer = client.call(19, 5, {"topics": [topic], "timeoutMs": 30_000, "validateOnly": False})
                (result,) = answer["topics"]
                decided += not result["errorCode"]
                if result["errorCode"] and (result["errorCode"] != _TIMED_OUT or time.monotonic() > deadline):
                    raise MutationQuotaError(f"{side.name} cannot be used: {result['errorMessage']}")
                on.check()

    with ThreadPoolExecutor(2 * _WARM_UPS) as pool:
        list(pool.map(create, on.sides * _WARM_UPS, [number // 2 for number in range(2 * _WARM_UPS)]))
    delete_topics(on)


def create_topics(on: Ground, topics: dict[str, int]) -> None:
    """Create topics by a user without a quota, given their numbers of partitions; return once brokers know them."""
    for future in on.admin.create_topics([NewTopic(name, count) for name, count in topics.items()]).values():
        future.result(_SECONDS)
    until(lambda: topics.keys() <= on.admin.list_topics(timeout=_SECONDS).topics.keys(), _SECONDS)


def topics_of(on: Ground, side: Side) -> dict[str, int]:
    """Return the partitions of a side's topics, by their names without the side's prefix."""
    found = on.admin.list_topics(timeout=_SECONDS).topics
    return {side.plain(name): len(topic.partitions) for name, topic in sorted(found.items()) if side.owns(name)}


def delete_topics(on: Ground) -> None:
    """Delete the topics of both sides."""
    found = on.admin.list_topics(timeout=_SECONDS).topics
    names = [name for name in found if any(side.owns(name) for side in on.sides)]
    if names:
        for future in on.admin.delete_topics(names).values():
            future.result(_SECONDS)
