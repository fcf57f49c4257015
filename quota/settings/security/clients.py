"""TLS and SASL in the form for each kind of client."""

from dataclasses import dataclass, field

from quota.errors import BadInput
from quota.settings.security.oauth import EXTENSIONS, ClientCredentials, jaas_config
from quota.settings.security.properties import Pairs, is_security

MECHANISMS = frozenset({"sasl.mechanism", "sasl.mechanisms"})
"""The property of the mechanism; librdkafka has two names for it."""

_PASSWORD_MODULES = {
    "PLAIN": "plain.PlainLoginModule",
    "SCRAM-SHA-256": "scram.ScramLoginModule",
    "SCRAM-SHA-512": "scram.ScramLoginModule",
}


@dataclass(frozen=True, slots=True)
class Security:
    """Protocol and credentials. Unused ones are empty; `repr` leaves secrets out.

    Certificates and keys are the contents (PEM) of their files, so that workers on other machines need no such files.
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
    oauth: ClientCredentials | None = None
    """The client credentials, if the mechanism is OAUTHBEARER."""
    token_function: str = ""
    """A function that returns tokens (`module:function`), for the mechanism OAUTHBEARER instead of credentials."""
    more_librdkafka: Pairs = field(default=(), repr=False)
    """Further properties of librdkafka, which override the others."""
    more_java: Pairs = field(default=(), repr=False)
    """Further properties of Kafka's Java client, which override the others."""

    @property
    def has_tls(self) -> bool:
        """Whether connections are encrypted."""
        return has_tls(self.protocol)

    @property
    def has_sasl(self) -> bool:
        """Whether the client authenticates by SASL."""
        return has_sasl(self.protocol)

    @property
    def is_complete(self) -> bool:
        """Whether these fields determine TLS and SASL completely, without further properties of librdkafka."""
        return not any(is_security(name) and name != EXTENSIONS for name, _ in self.more_librdkafka)

    def librdkafka(self) -> dict[str, str | float]:
        """Return the properties for librdkafka."""
        config: dict[str, str | float] = {"security.protocol": self.protocol}
        if self.has_sasl and self.sasl_mechanism:
            config["sasl.mechanism"] = self.sasl_mechanism
        if self.has_sasl and self.oauth:
            config |= self.oauth.librdkafka()
        elif self.has_sasl and self.sasl_mechanism and not self.token_function:
            config |= {"sasl.username": self.sasl_username, "sasl.password": self.sasl_password}
        if self.has_tls:
            config["ssl.endpoint.identification.algorithm"] = self.ssl_endpoint_identification
            config |= _without_empty(
                {
                    "ssl.ca.pem": self.ssl_ca,
                    "ssl.certificate.pem": self.ssl_certificate,
                    "ssl.key.pem": self.ssl_key,
                    "ssl.key.password": self.ssl_key_password,
                }
            )
        return config | dict(self.more_librdkafka)

    def java(self) -> dict[str, str]:
        """Return the properties for Kafka's Java client."""
        config = {"security.protocol": self.protocol}
        has_mechanism = bool(MECHANISMS & dict(self.more_java).keys())
        if self.token_function and not has_mechanism:
            raise BadInput(
                "Spark's clients cannot call sasl_oauthbearer_token_function; "
                "set sasl.mechanism in [kafka.java], and what it needs"
            )
        if self.has_sasl and not self.sasl_mechanism and not has_mechanism:
            raise BadInput("kafka.java needs sasl.mechanism and sasl.jaas.config, as kafka.librdkafka has a mechanism")
        if self.has_sasl and self.sasl_mechanism:
            config["sasl.mechanism"] = self.sasl_mechanism
        if self.has_sasl and self.oauth:
            config |= self.oauth.java()
        elif self.has_sasl and self.sasl_mechanism and not self.token_function:
            login = {"username": self.sasl_username, "password": self.sasl_password}
            config["sasl.jaas.config"] = jaas_config(_PASSWORD_MODULES[self.sasl_mechanism], login)
        if self.has_tls:
            algorithm = self.ssl_endpoint_identification
            config["ssl.endpoint.identification.algorithm"] = "" if algorithm == "none" else algorithm
        if self.has_tls and self.ssl_ca:
            config |= {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": self.ssl_ca}
        if self.has_tls and self.ssl_certificate:
            config |= {
                "ssl.keystore.type": "PEM",
                "ssl.keystore.certificate.chain": self.ssl_certificate,
                "ssl.keystore.key": self.ssl_key,
            }
            config |= _without_empty({"ssl.key.password": self.ssl_key_password})
        return config | dict(self.more_java)


def has_tls(protocol: str) -> bool:
    """Return whether a security protocol encrypts connections."""
    return protocol.endswith("SSL")


def has_sasl(protocol: str) -> bool:
    """Return whether a security protocol authenticates clients by SASL."""
    return protocol.startswith("SASL")


def _without_empty(config: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in config.items() if value}
