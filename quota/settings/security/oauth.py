"""OAuth client credentials, for access tokens from a token server (OIDC), in the form for each kind of client."""

import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field

MECHANISM = "OAUTHBEARER"
ALLOWED_URLS = "org.apache.kafka.sasl.oauthbearer.allowed.urls"
"""The system property with the URLs from which Java clients may request tokens; Kafka 4 requires it."""

OIDC_HANDLER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"
"""The callback handler with which Java clients get tokens from a token server."""

EXTENSIONS = "sasl.oauthbearer.extensions"
"""librdkafka's property of SASL extensions for the brokers, as `name=value,name=value`; all clients use it."""

_MODULE = "oauthbearer.OAuthBearerLoginModule"
_URL = "sasl.oauthbearer.token.endpoint.url"
_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r"})


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
