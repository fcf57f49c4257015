"""A broker that knows its clients, and lets each do only what its ACLs allow."""

from collections.abc import Iterable
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from jobs.sandbox.broker import HOST, Broker, free_port
from jobs.spark.installation import jars_folder
from tests.support.certificates import Authority, Certificate

ADMIN, ADMIN_PASSWORD = "admin", "admin-of-the-tests"

# SASL over TLS for those with a password, TLS alone for those with a certificate; whoever names no ACL may nothing.
_PROPERTIES = """\
listeners=SASL_SSL://{{host}}:{{port}},SSL://{{host}}:{tls_port},CONTROLLER://{{host}}:{{controller_port}}
advertised.listeners=SASL_SSL://{{host}}:{{port}},SSL://{{host}}:{tls_port}
listener.security.protocol.map=SASL_SSL:SASL_SSL,SSL:SSL,CONTROLLER:PLAINTEXT
inter.broker.listener.name=SASL_SSL
sasl.mechanism.inter.broker.protocol=PLAIN
sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-512
listener.name.sasl_ssl.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required \
username="{admin}" password="{password}" user_{admin}="{password}";
listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config=\
org.apache.kafka.common.security.scram.ScramLoginModule required;
ssl.keystore.type=PEM
ssl.keystore.location={keystore}
ssl.truststore.type=PEM
ssl.truststore.location={authority}
listener.name.ssl.ssl.client.auth=required
listener.name.ssl.ssl.principal.mapping.rules=RULE:^CN=(.*)$/$1/
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
allow.everyone.if.no.acl.found=false
super.users=User:{admin};User:ANONYMOUS
"""


@dataclass(frozen=True, slots=True)
class SecureBroker:
    """A broker with a listener for passwords (SASL_SSL) and one for certificates (SSL)."""

    broker: Broker
    authority: Authority
    tls_address: str
    admin: AdminClient

    def add_user(self, name: str, password: str) -> None:
        """Let a user in by a password (SCRAM-SHA-512)."""
        credential = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
        upsertion = UserScramCredentialUpsertion(name, credential, password.encode())
        for future in self.admin.alter_user_scram_credentials([upsertion]).values():
            future.result(30)

    def allow(self, user: str, acls: Iterable[tuple[str, str, str, str]]) -> None:
        """Allow a user operations: (kind of resource, name, LITERAL or PREFIXED, operation)."""
        bindings = [
            AclBinding(
                ResourceType[kind],
                name,
                ResourcePatternType[pattern],
                f"User:{user}",
                "*",
                AclOperation[operation],
                AclPermissionType.ALLOW,
            )
            for kind, name, pattern, operation in acls
        ]
        for future in self.admin.create_acls(bindings).values():
            future.result(30)


@contextmanager
def secure_broker(folder: Path, jars: str):
    """A broker that runs inside the block, with its own authority of certificates."""
    authority = Authority(folder / "certificates")
    certificate = authority.sign("broker", HOST)
    tls_port = free_port()
    more = _PROPERTIES.format(
        tls_port=tls_port,
        admin=ADMIN,
        password=ADMIN_PASSWORD,
        keystore=_keystore(folder / "broker-keystore.pem", certificate),
        authority=authority.path,
    )
    with Broker(folder / "broker", jars_folder(jars), more=more) as broker:
        admin = AdminClient(
            {
                "bootstrap.servers": broker.address,
                "security.protocol": "SASL_SSL",
                "sasl.mechanism": "PLAIN",
                "sasl.username": ADMIN,
                "sasl.password": ADMIN_PASSWORD,
                "ssl.ca.location": str(authority.path),
                "log_level": 2,
            }
        )
        yield SecureBroker(broker, authority, f"{HOST}:{tls_port}", admin)


def _keystore(path: Path, certificate: Certificate) -> Path:
    """Kafka takes key and certificate in one file."""
    path.write_text(certificate.key.read_text() + certificate.path.read_text())
    return path
