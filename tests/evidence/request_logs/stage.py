"""A cluster with its clients."""

from dataclasses import dataclass

from tests.evidence.request_logs.cluster import Cluster
from tests.evidence.request_logs.drive import Drive
from tests.evidence.request_logs.java_client import JavaClient, JavaDriver
from tests.evidence.request_logs.librdkafka_client import LibrdkafkaClient
from tests.evidence.request_logs.users import ADMIN, CERTIFIED, PASSWORDS, SCRAM, SUBJECT, login_module
from tests.support.broker import Certificate


@dataclass(slots=True)
class Stage:
    """The cluster, the programs and the record that all parts use."""

    cluster: Cluster
    java: JavaDriver
    drive: Drive
    certificate: Certificate | None = None

    def admin(self, client_id: str, user: str | None = None) -> JavaClient:
        """Return Kafka's own AdminClient; on a secured cluster without a user it is the administrator's."""
        config = {"bootstrap.servers": self.cluster.address, "client.id": client_id}
        if self.cluster.set_up.secured:
            user = user or ADMIN
            mechanism = _mechanism(user)
            config |= {
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": mechanism,
                "sasl.jaas.config": login_module(user, mechanism) + ";",
            }
        return JavaClient(self.java, config, principal_of(user))

    def librdkafka(self, client_id: str, user: str | None = None) -> LibrdkafkaClient:
        """Return librdkafka's admin client."""
        return LibrdkafkaClient(self.librdkafka_config(client_id, user), principal_of(user))

    def librdkafka_config(self, client_id: str, user: str | None = None) -> dict[str, str]:
        """Return the configuration of a client of librdkafka."""
        config = {"bootstrap.servers": self.cluster.address, "client.id": client_id}
        if user is not None:
            config |= {
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": _mechanism(user),
                "sasl.username": user,
                "sasl.password": PASSWORDS[user],
            }
        return config

    def certified(self, client_id: str) -> JavaClient:
        """Return an AdminClient with a certificate."""
        cluster = self.cluster
        assert cluster.authority is not None
        assert cluster.tls_address is not None
        if self.certificate is None:
            self.certificate = cluster.authority.sign("alice", subject=SUBJECT)
        keystore = cluster.folder / "alice.pem"
        keystore.write_text(self.certificate.key.read_text() + self.certificate.path.read_text())
        config = {
            "bootstrap.servers": cluster.tls_address,
            "client.id": client_id,
            "security.protocol": "SSL",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(keystore),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(cluster.authority.path),
        }
        return JavaClient(self.java, config, f"User:{CERTIFIED}")


def _mechanism(user: str) -> str:
    return "SCRAM-SHA-256" if user == SCRAM else "PLAIN"


def principal_of(user: str | None) -> str:
    """Return a user's principal; None is a client that is not authenticated."""
    return f"User:{user or 'ANONYMOUS'}"
