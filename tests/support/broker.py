"""Brokers of the tests: one with all listeners and an authorizer; its certificates, and the documented ACLs."""

import os
import re
import shlex
import subprocess
from collections.abc import Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
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
    UserScramCredentialAlteration,
    UserScramCredentialUpsertion,
)

from jobs.installation import jars_folder, java_program
from jobs.sandbox.broker import HOST, Broker, free_port
from tests.support.checkout import CHECKOUT

ADMIN, ADMIN_PASSWORD = "admin", "admin-of-the-tests"

_CLUSTER_ID = "bXV0YXRpb24tcXVvdGEtMQ"
_SECONDS = 30
_ITERATIONS = 4096

CERTIFICATE_PEM = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
"""The form of a certificate, for tests that only read the file."""

PLAIN_USERS = ("admin", "alice", "bob", "dave", "erin", "frank", "user1")
"""Users of the listener without TLS; their passwords are their names with `-secret`."""
GATEWAY_RULES = "RULE:^CN=([^,]*),OU=users.*$/$1/L,DEFAULT"
"""The rules for principals on the listener for gateways that identify clients by certificates."""
SESSION_MS = 6000
"""How long a session of these users lasts before the client must authenticate again."""

# Without authentication on the first listener, which permits everything; on the others, ACLs are required.
_PROPERTIES = """\
listeners=PLAINTEXT://{{host}}:{{port}},{others},CONTROLLER://{{host}}:{{controller_port}}
advertised.listeners=PLAINTEXT://{{host}}:{{port}},{others}
listener.security.protocol.map=\
PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL,SSL:SSL,GATEWAY:SSL,CONTROLLER:PLAINTEXT
inter.broker.listener.name=PLAINTEXT
listener.name.sasl_plaintext.sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,OAUTHBEARER
listener.name.sasl_plaintext.plain.sasl.jaas.config=\
org.apache.kafka.common.security.plain.PlainLoginModule required {users};
listener.name.sasl_plaintext.scram-sha-256.sasl.jaas.config=\
org.apache.kafka.common.security.scram.ScramLoginModule required;
listener.name.sasl_plaintext.oauthbearer.sasl.jaas.config=\
org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="admin";
listener.name.sasl_plaintext.plain.connections.max.reauth.ms={session_ms}
listener.name.sasl_ssl.sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-512
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
listener.name.gateway.ssl.client.auth=required
listener.name.gateway.ssl.truststore.type=PEM
listener.name.gateway.ssl.truststore.location={issuer}
listener.name.gateway.ssl.principal.mapping.rules={rules}
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
allow.everyone.if.no.acl.found=false
super.users=User:{admin};User:ANONYMOUS
"""


def _format_by_kafka(broker):
    """Prepare the folder of a broker's data by Kafka's own tool, as for a release without a prepared checkpoint."""
    command = [str(java_program()), "-XX:TieredStopAtLevel=1", "-cp", f"{broker._jars}/*", "kafka.tools.StorageTool"]  # noqa: SLF001
    command += ["format", "--cluster-id", _CLUSTER_ID, "--config", str(broker._properties)]  # noqa: SLF001
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


OTHER_JARS = os.environ.get("BROKER_JARS")
"""The folder with the jars of another release of Kafka, for all brokers (`make compatibility`); None without one."""
if OTHER_JARS:
    Broker._format = _format_by_kafka  # type: ignore[method-assign]  # noqa: SLF001


@dataclass(frozen=True, slots=True)
class SecureBroker:
    """A broker with a listener for everybody, and one for each way to authenticate."""

    broker: Broker
    """Its address is that of the listener without authentication."""
    sasl_address: str
    """SASL_PLAINTEXT: by passwords of `PLAIN_USERS`, by SCRAM-SHA-256, and by unsigned tokens."""
    address: str
    """SASL_SSL: by passwords of the admin, and by SCRAM-SHA-512."""
    tls_address: str
    """SSL: by certificates."""
    gateway_address: str
    """SSL: by certificates that the issuer has signed."""
    authority: "Authority"
    issuer: "Authority"
    """The CA of gateways."""
    admin: AdminClient

    def add_user(self, name: str, password: str) -> None:
        """Create a user with a password (SCRAM-SHA-512)."""
        add_scram_users(self.admin, ScramMechanism.SCRAM_SHA_512, {name: password})

    def allow(self, user: str, acls: Iterable[tuple[str, str, str, str]]) -> None:
        """Grant operations to a user, as `allow` does."""
        allow(self.admin, user, acls)

    @property
    def sasl_target(self) -> list[str]:
        """The settings by which a gateway's own connection uses the listener without TLS, as the admin."""
        return [
            f"kafka.target_servers={self.sasl_address}",
            "target.security_protocol=SASL_PLAINTEXT",
            "target.sasl_mechanism=PLAIN",
            f"target.sasl_username={ADMIN}",
            f"target.sasl_password={ADMIN}-secret",
        ]

    def options(self, user: str, password_file: Path, **more: object) -> list[str]:
        """Return the settings by which a user with a password in a file connects; `more` are other keys of `kafka`."""
        named = {
            "bootstrap_servers": self.address,
            "security_protocol": "SASL_SSL",
            "sasl_mechanism": "SCRAM-SHA-512",
            "sasl_username": user,
            "sasl_password": f"file:{password_file}",
            "ssl_ca_location": self.authority.path,
            **more,
        }
        return [f"kafka.{name}={value}" for name, value in named.items()]


@contextmanager
def secure_broker(folder: Path, jars: str):
    """Run a broker inside the block, with its own certificate authority."""
    folder.mkdir(parents=True, exist_ok=True)
    authority, issuer = (Authority(folder / name) for name in ("certificates", "issuer"))
    addresses = {name: f"{HOST}:{free_port()}" for name in ("SASL_PLAINTEXT", "SASL_SSL", "SSL", "GATEWAY")}
    properties = _PROPERTIES.format(
        others=",".join(f"{name}://{address}" for name, address in addresses.items()),
        users=" ".join(f'user_{name}="{name}-secret"' for name in PLAIN_USERS),
        session_ms=SESSION_MS,
        admin=ADMIN,
        password=ADMIN_PASSWORD,
        keystore=write_keystore(folder / "broker-keystore.pem", authority.sign("broker", HOST)),
        authority=authority.path,
        issuer=issuer.path,
        rules=GATEWAY_RULES,
    )
    with Broker(folder / "broker", jars_folder(jars), extra_properties=properties) as broker:
        admin = AdminClient({"bootstrap.servers": broker.address, "log_level": 2})
        sasl, sasl_tls, tls, gateway = addresses.values()
        yield SecureBroker(broker, sasl, sasl_tls, tls, gateway, authority, issuer, admin)


def write_keystore(path: Path, certificate: "Certificate") -> Path:
    """Write key and certificate to one file, as Kafka reads them."""
    path.write_text(certificate.key.read_text() + certificate.path.read_text())
    return path


@dataclass(frozen=True, slots=True)
class Certificate:
    """A certificate and its key (PKCS#8), as PEM files."""

    path: Path
    key: Path


_DAYS = "2"
_CURVE = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1")


class Authority:
    """A certificate authority, by openssl."""

    def __init__(self, folder: Path) -> None:
        """Create the folder and a new authority in it."""
        folder.mkdir()
        self._folder = folder
        self.own = Certificate(folder / "ca.pem", folder / "ca.key")
        _openssl("req", "-x509", *_CURVE, "-nodes", *_files(self.own), "-days", _DAYS, "-subj", "/CN=authority")

    @property
    def path(self) -> Path:
        """The authority's own certificate, which clients trust."""
        return self.own.path

    def sign(
        self, name: str, address: str | None = None, password: str | None = None, subject: str | None = None
    ) -> Certificate:
        """Create a certificate, whose common name is that of the files, for the IP address of a broker or for a client.

        A password encrypts the key. `subject` is the whole subject in openssl's format, in UTF-8.
        """
        made = Certificate(self._folder / f"{name}.pem", self._folder / f"{name}.key")
        where = [] if address is None else ["-addext", f"subjectAltName=IP:{address}"]
        signer = ["-CA", str(self.own.path), "-CAkey", str(self.own.key)]
        who = ["-utf8", "-subj", subject or f"/CN={name}"]
        _openssl("req", "-x509", *_CURVE, "-nodes", *_files(made), *signer, "-days", _DAYS, *who, *where)
        if password is None:
            return made
        encrypted = Certificate(made.path, made.key.with_suffix(".encrypted"))
        given = ("-in", str(made.key), "-out", str(encrypted.key), "-passout", f"pass:{password}")
        _openssl("pkcs8", "-topk8", "-v1", "PBE-SHA1-3DES", *given)  # Java 17 reads no other encryption
        return encrypted


def _files(made: Certificate) -> list[str]:
    return ["-out", str(made.path), "-keyout", str(made.key)]


def _openssl(*args: str) -> None:
    subprocess.run(["openssl", *args], check=True, capture_output=True)


def add_scram_users(admin: AdminClient, mechanism: ScramMechanism, passwords: Mapping[str, str]) -> None:
    """Create users with passwords that the broker stores."""
    info = ScramCredentialInfo(mechanism, _ITERATIONS)
    upsertions: list[UserScramCredentialAlteration] = [
        UserScramCredentialUpsertion(user, info, word.encode()) for user, word in passwords.items()
    ]
    for future in admin.alter_user_scram_credentials(upsertions).values():
        future.result(_SECONDS)


def allow(admin: AdminClient, user: str, acls: Iterable[tuple[str, str, str, str]]) -> None:
    """Grant operations to a user: (kind of resource, name, LITERAL or PREFIXED, operation)."""
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
    for future in admin.create_acls(bindings).values():
        future.result(_SECONDS)


_SECURITY_PAGE = CHECKOUT / "docs/explanation/security.md"
_OPERATIONS = {operation.title(): operation for operation in ("READ", "WRITE", "CREATE", "ALTER", "DELETE", "DESCRIBE")}
_OPERATIONS |= {"DescribeConfigs": "DESCRIBE_CONFIGS", "AlterConfigs": "ALTER_CONFIGS"}

_CLUSTER = ("BROKER", "kafka-cluster", "LITERAL")
"""The cluster as a resource, which librdkafka calls a broker."""


def documented_acls():
    """Return the ACLs of each principal, from the commands in docs/explanation/security.md."""
    acls, page = {}, _SECURITY_PAGE.read_text()
    (group,) = re.findall(r'^group="(.*)"$', page, re.MULTILINE)
    for line in page.splitlines():
        if line.startswith("acl "):
            _, principal, operations, *words = shlex.split(line.replace("$group", group), comments=True)
            pattern = "PREFIXED" if "prefixed" in words else "LITERAL"
            kinds = {f"--{kind}": kind.replace("-", "_").upper() for kind in ("topic", "group", "transactional-id")}
            named = [(kinds[kind], name, pattern) for kind, name in pairwise(words) if kind in kinds]
            acls.setdefault(principal, []).extend(
                (*where, _OPERATIONS[operation]) for where in named or [_CLUSTER] for operation in operations.split()
            )
    return acls
