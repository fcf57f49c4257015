"""A connection to a cluster: its servers, TLS and SASL, in the form for each kind of client."""

import ipaddress
import ssl
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from pydantic import SecretStr

from quota.errors import BadInput
from quota.settings.types import Name

BOOTSTRAP_SERVERS, SECURITY_PROTOCOL = "kafka.bootstrap_servers", "kafka.security_protocol"
"""The settings of the servers and of the protocol of the cluster that decides."""

_PORT = 9092

_SECURITY = ("security.", "sasl.", "ssl.", "https.", "enable.ssl.")

ClientProperties = dict[Name, SecretStr]
"""Properties by their names in the client's own documentation."""

Pairs = tuple[tuple[str, str], ...]

MECHANISMS = frozenset({"sasl.mechanism", "sasl.mechanisms"})
"""The property of the mechanism; librdkafka has two names for it."""

_PASSWORD_MODULES = {
    "PLAIN": "plain.PlainLoginModule",
    "SCRAM-SHA-256": "scram.ScramLoginModule",
    "SCRAM-SHA-512": "scram.ScramLoginModule",
}

OAUTHBEARER = "OAUTHBEARER"
ALLOWED_URLS = "org.apache.kafka.sasl.oauthbearer.allowed.urls"
"""The system property with the URLs from which Java clients may request tokens; Kafka 4 requires it."""

OIDC_HANDLER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"
"""The callback handler with which Java clients get tokens from a token server."""

EXTENSIONS = "sasl.oauthbearer.extensions"
"""librdkafka's property of SASL extensions for the brokers, as `name=value,name=value`; all clients use it."""

_MODULE = "oauthbearer.OAuthBearerLoginModule"
_URL = "sasl.oauthbearer.token.endpoint.url"
_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r"})


def is_security(name: str) -> bool:
    """Return whether a property changes how a client protects its connection, or where and how it logs in."""
    return name.startswith(_SECURITY)


def as_pairs(properties: ClientProperties) -> Pairs:
    """Return properties with their values, in a form that can be hashed."""
    return tuple((name, value.get_secret_value()) for name, value in properties.items())


def check_not_owned(given: Pairs, own: Iterable[str]) -> None:
    """Check that further properties are not among those that a program sets itself for a client.

    Those determine topics, the records that are read, the order, retries and acknowledgement of writes, and memory.
    """
    owned = {name.lower() for name in own}
    for name, _ in given:
        if name.strip().lower() in owned:  # Spark's options ignore case
            raise BadInput(f"the jobs themselves set the property {name} of Kafka's client; remove it")


@dataclass(frozen=True, slots=True)
class ClientCredentials:
    """A client of a token server. Unused values are empty; `repr` leaves the secret out."""

    token_endpoint_url: str
    client_id: str
    client_secret: str = field(repr=False)
    scope: str = ""
    extensions: str = ""
    """SASL extensions for the brokers, as in `EXTENSIONS`."""
    ca: str = field(default="", repr=False)
    """The certificates to trust (PEM) if the token server uses TLS. Empty for those of the system, and of Java."""

    def librdkafka(self) -> dict[str, str | float]:
        """Return the properties for librdkafka."""
        config: dict[str, str | float] = {
            "sasl.oauthbearer.method": "oidc",
            _URL: self.token_endpoint_url,
            "sasl.oauthbearer.client.id": self.client_id,
            "sasl.oauthbearer.client.secret": self.client_secret,
        }
        if self.scope:
            config["sasl.oauthbearer.scope"] = self.scope
        if self.extensions:
            config[EXTENSIONS] = self.extensions
        if self.ca:
            config["https.ca.pem"] = self.ca
        elif self.token_endpoint_url.startswith("https:") and (system := ssl.get_default_verify_paths().cafile):
            # The libcurl in confluent-kafka's wheel looks for CA certificates in Red Hat's path only.
            config["https.ca.location"] = system
        return config

    def java(self) -> dict[str, str]:
        """Return the properties for Kafka's Java client."""
        # Spark logs this text at level debug, and redacts what follows the word password (KafkaRedactionUtil): so that
        # is first.
        options = {"password": "", "clientId": self.client_id, "clientSecret": self.client_secret}
        if self.scope:
            options["scope"] = self.scope
        options |= {f"extension_{name}": value for name, value in extension_pairs(self.extensions).items()}
        if self.ca:
            options |= {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": self.ca}
        return {
            "sasl.login.callback.handler.class": OIDC_HANDLER,
            _URL: self.token_endpoint_url,
            "sasl.jaas.config": jaas_config(_MODULE, options),
            # By default a token of less than six minutes is renewed with a warning each time.
            "sasl.login.refresh.min.period.seconds": "5",
            "sasl.login.refresh.buffer.seconds": "15",
        }


def extension_pairs(text: str) -> Mapping[str, str]:
    """Return SASL extensions by their names."""
    pairs = [pair.strip().partition("=") for pair in text.split(",") if pair.strip()]
    for name, equals, value in pairs:
        if not (name.isascii() and name.isalpha() and equals and value):
            raise ValueError(f"{EXTENSIONS}: expected name=value,name=value with letters as names")
    return {name: value for name, _, value in pairs}


def jaas_config(module: str, options: Mapping[str, str]) -> str:
    """Return the configuration of a login module of Kafka's Java client, for its property `sasl.jaas.config`."""
    quoted = (f'{name}="{value.translate(_ESCAPES)}"' for name, value in options.items())
    return f"org.apache.kafka.common.security.{module} required {' '.join(quoted)};"


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
        return self.protocol.endswith("SSL")

    @property
    def has_sasl(self) -> bool:
        """Whether the client authenticates by SASL."""
        return self.protocol.startswith("SASL")

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


def _without_empty(config: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in config.items() if value}


@dataclass(frozen=True, slots=True)
class Connection:
    """A cluster's servers and the security of connections to them. `str` returns the servers."""

    servers: str
    """Bootstrap servers as `host:port`, separated by commas."""
    security: Security = field(default_factory=Security)
    servers_from: str = field(default=BOOTSTRAP_SERVERS, compare=False)
    """The setting or option that names the servers, for advice."""
    protocol_from: str = field(default=SECURITY_PROTOCOL, compare=False)
    """The setting that has the security protocol, for advice."""

    def __str__(self) -> str:
        return self.servers

    @property
    def addresses(self) -> list[tuple[str, int]]:
        """Host and port of each server, without its protocol; a server without a port has Kafka's usual one."""
        addresses = []
        for server in self.servers.split(","):
            address = server.rpartition("://")[2].strip()
            host, separator, port = address.rpartition(":")
            has_port = separator and port.isdigit()
            addresses.append((host.strip("[]"), int(port)) if has_port else (address.strip("[]"), _PORT))
        return addresses

    @property
    def advice(self) -> str:
        """Advice to append to the reason why a cluster without TLS and SASL does not answer."""
        if not all(is_loopback(host) for host, _ in self.addresses):
            first = f"check the address ({self.servers_from}), the network and the listener"
        elif self.servers_from == BOOTSTRAP_SERVERS:
            first = f"start it (mutation-quota run, or mutation-quota broker), or set {self.servers_from}"
        else:
            first = f"set {self.servers_from}"
        return f"; {first}; for TLS or SASL also {self.protocol_from}"

    def librdkafka(self) -> dict[str, str | float]:
        """Return the properties for librdkafka."""
        return {"bootstrap.servers": self.servers, **self.security.librdkafka()}

    def java(self) -> dict[str, str]:
        """Return the properties for Kafka's Java client."""
        return {"bootstrap.servers": self.servers, **self.security.java()}


def is_loopback(host: str) -> bool:
    """Return whether a host is this machine, by its name or address alone."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
