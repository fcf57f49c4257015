"""The settings of the gateway."""

import re
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, SecretStr, model_validator

from quota.settings.types import MAX_PORT, Address, AddressOrEmpty, Count, Name, NameList, Seconds, Section

_LISTENER = re.compile(r"(?P<port>[0-9]{1,5})=(?P<host>[^=\s]+):(?P<broker_port>[0-9]{1,5})")

Port = Annotated[int, Field(ge=1, le=MAX_PORT)]


def _check_listeners(listeners: list[str]) -> list[str]:
    for each in listeners:
        found = _LISTENER.fullmatch(each)
        if found is None or not all(1 <= int(found[part]) <= MAX_PORT for part in ("port", "broker_port")):
            raise ValueError(f"{each!r} is not PORT=HOST:PORT, such as 19092=kafka-1:9094")
    ports = [each.partition("=")[0] for each in listeners]
    for port in ports:
        if ports.count(port) > 1:
            raise ValueError(f"port {port} is given to two brokers")
    return listeners


class GatewaySettings(Section):
    """The gateway, which speaks Kafka's protocol in front of the target cluster."""

    address: Address = "127.0.0.1"
    """Address to listen on. `0.0.0.0` accepts all that reach this machine."""

    advertised_host: AddressOrEmpty = ""
    """Host by which clients reach the gateway. Empty for `address`."""

    advertised_by: Literal["gateway", "brokers"] = "gateway"
    """Who advertises its addresses: the `gateway`, by rewriting brokers' responses, or the `brokers`, by a listener for
    it."""

    first_port: Port = 19_092
    """Port of the broker with the lowest node id, up to 65,535; the others follow. Unused with `listeners`."""

    listeners: Annotated[NameList, AfterValidator(_check_listeners)] = []
    """Port and broker of each listener, as `19092=kafka-1:9094`. Empty finds the brokers. Separated by commas."""

    when_silent: Literal["closed", "open"] = "closed"
    """Without a decision: return an error (`closed`), or proceed (`open`)."""

    decision_timeout_seconds: Seconds = 10.0
    """Time in seconds, above 0 and up to 86,400, that a decision may take, unless the client's own timeout is
    shorter."""

    permissive: bool = True
    """Whether clients of old API versions may change topics. They are never refused, only muted (KIP-599)."""

    default_partitions: Count = 1
    """Cost of a topic with the default number of partitions, for clients that may not describe its configs."""

    oauth_subject_claim: Name = "sub"
    """Claim of an OAUTHBEARER token that names the user, Kafka's `sasl.oauthbearer.sub.claim.name`."""

    max_connections: Count = 10_000
    """Maximum number of connections. Each needs two file descriptors."""

    max_request_bytes: Count = 100 * 1024 * 1024
    """Maximum size of a request in bytes, Kafka's `socket.request.max.bytes`."""

    drain_seconds: Seconds = 30.0
    """Time in seconds, above 0 and up to 86,400, that mutations may take to finish when the gateway is stopped."""

    ssl_certificate_location: str = ""
    """Path of the gateway's certificate with its chain (PEM). Empty for clients without TLS."""

    ssl_key_location: str = ""
    """Path of its private key (PEM, PKCS#8). Required with `ssl_certificate_location`."""

    ssl_key_password: SecretStr = SecretStr("")
    """Password of an encrypted private key, or `file:` and the path of a file with only the password."""

    @property
    def ports(self) -> list[tuple[int, tuple[str, int]]]:
        """Each listener's port, and host and port of its broker."""
        found = [match for each in self.listeners if (match := _LISTENER.fullmatch(each))]
        return [(int(each["port"]), (each["host"].strip("[]"), int(each["broker_port"]))) for each in found]

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if bool(self.ssl_certificate_location) != bool(self.ssl_key_location):
            raise ValueError("set ssl_certificate_location and ssl_key_location together")
        if self.advertised_by == "brokers" and not self.listeners:
            raise ValueError(
                "advertised_by=brokers requires listeners, because brokers advertise the gateway's addresses"
            )
        return self
