"""The configuration files of a cluster's nodes."""

from dataclasses import dataclass
from pathlib import Path

from jobs.sandbox.broker import HOST
from tests.evidence.request_logs.users import ADMIN, BROKER, PASSWORDS, plain_module

DEFAULT_PARTITIONS = 3
QUOTA_WINDOWS = 3

_COMMON = f"""\
controller.quota.window.num={QUOTA_WINDOWS}
controller.quota.window.size.seconds=1
"""

_BROKER = f"""\
log.dirs={{folder}}/data
num.partitions={DEFAULT_PARTITIONS}
auto.create.topics.enable=true
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=5
group.initial.rebalance.delay.ms=0
log.cleaner.dedupe.buffer.size=16777216
"""

_ZOOKEEPER = f"""\
dataDir={{folder}}/data
clientPort={{port}}
clientPortAddress={HOST}
admin.enableServer=false
"""

_SECURED = f"""\
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:{ADMIN};User:{BROKER}
sasl.mechanism.controller.protocol=PLAIN
listener.name.controller.sasl.enabled.mechanisms=PLAIN
listener.name.controller.plain.sasl.jaas.config={plain_module(BROKER, PASSWORDS)}
listener.security.protocol.map=CONTROLLER:SASL_PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT,SSL:SSL
"""

_SECURED_BROKER = f"""\
inter.broker.listener.name=SASL_PLAINTEXT
sasl.mechanism.inter.broker.protocol=PLAIN
sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256
listener.name.sasl_plaintext.plain.sasl.jaas.config={plain_module(BROKER, PASSWORDS)}
listener.name.sasl_plaintext.scram-sha-256.sasl.jaas.config=\
org.apache.kafka.common.security.scram.ScramLoginModule required;
ssl.keystore.type=PEM
ssl.keystore.location={{keystore}}
ssl.truststore.type=PEM
ssl.truststore.location={{authority}}
listener.name.ssl.ssl.client.auth=required
"""


@dataclass(frozen=True, slots=True)
class Quorum:
    """The controller of a KRaft cluster."""

    id: int
    port: int

    def properties(self, node: int, roles: str) -> str:
        """Return the properties of the quorum for a node with these roles."""
        voters = f"{self.id}@{HOST}:{self.port}"
        return (
            f"node.id={node}\nprocess.roles={roles}\ncontroller.quorum.voters={voters}\n"
            "controller.listener.names=CONTROLLER\n"
        )

    @property
    def listener(self) -> str:
        """The controller's listener."""
        return f"CONTROLLER://{HOST}:{self.port}"


@dataclass(frozen=True, slots=True)
class Tls:
    """The port and the files of a TLS listener that authenticates clients by certificates."""

    port: int
    keystore: Path
    authority: Path


def zookeeper(folder: Path, port: int) -> str:
    """Return the configuration of ZooKeeper."""
    return _ZOOKEEPER.format(folder=folder, port=port)


def zookeeper_broker(folder: Path, node: int, port: int, zookeeper_port: int) -> str:
    """Return the configuration of a broker with ZooKeeper."""
    where = f"broker.id={node}\nlisteners=PLAINTEXT://{HOST}:{port}\nzookeeper.connect={HOST}:{zookeeper_port}\n"
    return where + _COMMON + _BROKER.format(folder=folder)


def broker(folder: Path, node: int, port: int, quorum: Quorum, tls: Tls | None) -> str:
    """Return the configuration of a broker; with the id of the quorum's node it is the controller, too."""
    combined = node == quorum.id
    protocol = "PLAINTEXT" if tls is None else "SASL_PLAINTEXT"
    clients = f"{protocol}://{HOST}:{port}" + ("" if tls is None else f",SSL://{HOST}:{tls.port}")
    listeners = f"{clients},{quorum.listener}" if combined else clients
    text = quorum.properties(node, "broker,controller" if combined else "broker")
    text += f"listeners={listeners}\nadvertised.listeners={clients}\n" + _COMMON + _BROKER.format(folder=folder)
    if tls is not None:
        text += _SECURED + _SECURED_BROKER.format(keystore=tls.keystore, authority=tls.authority)
    return text


def controller(folder: Path, quorum: Quorum, *, secured: bool) -> str:
    """Return the configuration of a separate controller."""
    text = quorum.properties(quorum.id, "controller") + f"listeners={quorum.listener}\nlog.dirs={folder}/data\n"
    return text + _COMMON + f"num.partitions={DEFAULT_PARTITIONS}\n" + (_SECURED if secured else "")
