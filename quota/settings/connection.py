"""How a cluster is reached: its servers, and TLS and SASL as each kind of client takes them."""

from dataclasses import dataclass, field

_JAAS_MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}


@dataclass(frozen=True, slots=True)
class Security:
    """Protocol and credentials. Empty texts stand for what is not used; secrets are left out where it is printed.

    Certificates and keys are held as they are in their files (PEM), so that workers elsewhere need no such files.
    """

    protocol: str = "PLAINTEXT"
    sasl_mechanism: str = ""
    sasl_username: str = ""
    sasl_password: str = field(default="", repr=False)
    ssl_ca: str = field(default="", repr=False)
    ssl_certificate: str = field(default="", repr=False)
    ssl_key: str = field(default="", repr=False)
    ssl_key_password: str = field(default="", repr=False)
    ssl_endpoint_identification: str = "https"

    @property
    def has_tls(self) -> bool:
        """Whether connections are encrypted."""
        return self.protocol.endswith("SSL")

    @property
    def has_sasl(self) -> bool:
        """Whether the client says who it is by a password."""
        return self.protocol.startswith("SASL")

    def librdkafka(self) -> dict[str, str | float]:
        """As librdkafka takes it."""
        config: dict[str, str | float] = {"security.protocol": self.protocol}
        if self.has_sasl:
            config |= {
                "sasl.mechanism": self.sasl_mechanism,
                "sasl.username": self.sasl_username,
                "sasl.password": self.sasl_password,
            }
        if self.has_tls:
            config["ssl.endpoint.identification.algorithm"] = self.ssl_endpoint_identification
            config |= _given(
                {
                    "ssl.ca.pem": self.ssl_ca,
                    "ssl.certificate.pem": self.ssl_certificate,
                    "ssl.key.pem": self.ssl_key,
                    "ssl.key.password": self.ssl_key_password,
                }
            )
        return config

    def java(self) -> dict[str, str]:
        """As Kafka's own client in Java takes it."""
        config = {"security.protocol": self.protocol}
        if self.has_sasl:
            user, password = _quoted(self.sasl_username), _quoted(self.sasl_password)
            module = _JAAS_MODULES[self.sasl_mechanism]
            config |= {
                "sasl.mechanism": self.sasl_mechanism,
                "sasl.jaas.config": f"{module} required username={user} password={password};",
            }
        if self.has_tls:
            checked = self.ssl_endpoint_identification
            config["ssl.endpoint.identification.algorithm"] = "" if checked == "none" else checked
        if self.has_tls and self.ssl_ca:
            config |= {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": self.ssl_ca}
        if self.has_tls and self.ssl_certificate:
            config |= {
                "ssl.keystore.type": "PEM",
                "ssl.keystore.certificate.chain": self.ssl_certificate,
                "ssl.keystore.key": self.ssl_key,
            }
            config |= _given({"ssl.key.password": self.ssl_key_password})
        return config


@dataclass(frozen=True, slots=True)
class Connection:
    """A cluster's servers, and how they are to be spoken to; printed, it is its servers."""

    servers: str
    """host:port, several separated by commas."""
    security: Security = Security()

    def __str__(self) -> str:
        return self.servers

    def librdkafka(self) -> dict[str, str | float]:
        """As librdkafka takes it."""
        return {"bootstrap.servers": self.servers, **self.security.librdkafka()}

    def java(self) -> dict[str, str]:
        """As Kafka's own client in Java takes it."""
        return {"bootstrap.servers": self.servers, **self.security.java()}


def _quoted(text: str) -> str:
    """A text as an option's value in a JAAS configuration."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _given(config: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in config.items() if value}
