"""What the evidence of the gateway runs on: a broker with a listener for each purpose, the job, and gateways."""

import ssl
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confluent_kafka.admin import AdminClient
from pyspark.sql.streaming.query import StreamingQuery

from jobs.enforce.query import start_enforce
from jobs.installation import jars_folder
from jobs.sandbox.broker import HOST, Broker, free_port, with_plaintext_cluster
from jobs.services.spark import claimed_deployment
from jobs.spark.queries import stop_after_batch
from jobs.storage.files import DeploymentSession
from quota.kafka.topics.preparation import prepare_topics
from quota.settings import Settings, load_settings
from quota.wire.protocol import ApiKey
from tests.evidence.command import Notify
from tests.support.broker import OTHER_JARS, Authority, write_keystore
from tests.support.deployment import make_deployment
from tests.support.gateway import Gateway, protocol, running_gateway
from tests.support.topics import admin_of
from tests.support.wire_client import WireClient

ADMIN = "admin"
"""A user who may do everything, and who has no quota."""

_PROPERTIES = """\
controller.quorum.voters=1@{{host}}:{controller}
listeners=PLAINTEXT://{{host}}:{{port}},SASL://{{host}}:{sasl},TLS://{{host}}:{tls},CONTROLLER://{{host}}:{controller}
advertised.listeners=PLAINTEXT://{{host}}:{{port}},SASL://{{host}}:{sasl},TLS://{{host}}:{tls}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT,TLS:SSL,CONTROLLER:PLAINTEXT
ssl.keystore.type=PEM
ssl.keystore.location={keystore}
inter.broker.listener.name=PLAINTEXT
sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256
listener.name.sasl.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required {users};
listener.name.sasl.scram-sha-256.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:ANONYMOUS;User:{admin}
controller.quota.window.num={window_num}
auto.create.topics.enable=true
fetch.max.bytes=104857600
group.initial.rebalance.delay.ms=0
"""

_FETCH_VERSION = 12

WINDOW_NUM = 6
"""`controller.quota.window.num` of the broker."""


def password_of(user: str) -> str:
    """Return a user's password."""
    return f"{user}-secret"


@dataclass(frozen=True, slots=True)
class Ground:
    """A running broker; its clients need no authentication but at `sasl`, and the authorizer allows them everything."""

    folder: Path
    """Folder for all files."""
    settings: Settings
    """Settings whose cluster is the broker."""
    jars: Path
    port: int
    """Port of the broker's own listener."""
    sasl: int
    """Port of the listener that authenticates."""
    tls: int
    """Port of the listener with TLS."""
    authority: Authority
    """The authority that signed its certificate."""
    admin: AdminClient
    """A client at the broker's own listener."""

    def deployment(self, name: str) -> Settings:
        """Return the settings of a deployment with topics of its own, which are made."""
        settings = make_deployment(self.settings, name, self.folder / name)
        prepare_topics(settings)
        return settings

    def connect(self, port: int, tls: ssl.SSLContext | None = None) -> WireClient:
        """Connect to a port."""
        return WireClient((HOST, port), protocol(), "evidence", tls)

    def trusting(self) -> ssl.SSLContext:
        """Return what a client needs to connect by TLS."""
        return ssl.create_default_context(cafile=str(self.authority.path))

    def stored_records(self, topic: str) -> bytes:
        """Return the first batch or batches of a topic's partition 0, as they are stored."""
        partition = {"partition": 0, "fetchOffset": 0, "partitionMaxBytes": 1 << 20}
        topics = [{"topic": topic, "partitions": [partition]}]
        with self.connect(self.port) as client:
            answer = client.call(ApiKey.FETCH, _FETCH_VERSION, {"maxWaitMs": 1000, "minBytes": 1, "topics": topics})
        return answer["responses"][0]["partitions"][0]["records"]

    def encryption(self, name: str) -> tuple[str, ...]:
        """Return the settings of a gateway with TLS on both sides; its certificate, of that name, is made."""
        own = self.authority.sign(name, HOST)
        clients = (f"gateway.ssl_certificate_location={own.path}", f"gateway.ssl_key_location={own.key}")
        target = ("target.security_protocol=SSL", f"target.ssl_ca_location={self.authority.path}")
        return (*clients, *target, f"kafka.target_servers={HOST}:{self.tls}")

    @contextmanager
    def gateway(self, settings: Settings, name: str, *given: str, port: int = 0) -> Iterator[Gateway]:
        """Run a gateway of a deployment inside the block, in front of the broker's own listener if nothing is given."""
        with running_gateway(settings, self.folder / f"{name}.log", *given, port=port) as gateway:
            yield gateway

    @contextmanager
    def encrypting_gateway(self, settings: Settings, name: str, *given: str, port: int = 0) -> Iterator[Gateway]:
        """Run a gateway with TLS on both sides."""
        with self.gateway(settings, name, *self.encryption(name), *given, port=port) as gateway:
            yield gateway

    @contextmanager
    def authenticating_gateway(self, settings: Settings, name: str) -> Iterator[Gateway]:
        """Run a gateway in front of the listener that authenticates."""
        target = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN", "sasl_username": ADMIN}
        target["sasl_password"] = password_of(ADMIN)
        given = (f"target.{key}={value}" for key, value in target.items())
        with self.gateway(settings, name, f"kafka.target_servers={HOST}:{self.sasl}", *given) as gateway:
            yield gateway


@contextmanager
def ground(
    settings: Settings, folder: Path, users: Sequence[str] = (), java_options: Sequence[str] = ("-Xmx1g",)
) -> Iterator[Ground]:
    """Run a broker inside the block, with users that authenticate by PLAIN.

    It is of the release whose jars the variable `BROKER_JARS` names, if it is set; all else is of the newest one.

    Raises:
        MutationQuotaError: It does not start.
    """
    controller, sasl, tls = (free_port() for _ in range(3))
    authority = Authority(folder / "certificates")
    properties = _PROPERTIES.format(
        controller=controller,
        sasl=sasl,
        tls=tls,
        keystore=write_keystore(folder / "broker-keystore.pem", authority.sign("broker", HOST)),
        users=" ".join(f'user_{user}="{password_of(user)}"' for user in (ADMIN, *users)),
        admin=ADMIN,
        window_num=WINDOW_NUM,
    )
    jars = jars_folder(settings.broker.jars)
    of_broker = jars_folder(OTHER_JARS) if OTHER_JARS else jars
    with Broker(folder / "broker", of_broker, extra_properties=properties, java_options=[*java_options]) as broker:
        named = with_plaintext_cluster(settings, broker.address)
        yield Ground(folder, named, jars, broker.port, sasl, tls, authority, admin_of(named))


def on_ground(
    play: Callable[[Ground, Namespace, Notify], dict[str, Any]], users: Sequence[str] = ()
) -> Callable[[Namespace, Path, Notify], dict[str, Any]]:
    """Return what `tests.evidence.command.run` plays: a program on its own broker."""

    def on_own_broker(options: Namespace, folder: Path, notify: Notify) -> dict[str, Any]:
        settings = load_settings([f"storage.root={folder}", "spark.master=local[2]"], environment={})
        with ground(settings, folder, users) as where:
            return play(where, options, notify)

    return on_own_broker


@contextmanager
def enforcing(settings: Settings) -> Iterator[StreamingQuery]:
    """Run the complete job of a deployment inside the block."""
    log = Path(settings.storage.root).with_suffix(".log")
    with claimed_deployment(settings, "enforce", log) as run, query_of(run) as query:
        yield query


@contextmanager
def query_of(run: DeploymentSession) -> Iterator[StreamingQuery]:
    """Run the job's query inside the block."""
    query = start_enforce(run)
    try:
        yield query
    finally:
        stop_after_batch([query])
