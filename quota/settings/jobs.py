"""Sections of the settings that configure one program each."""

import ipaddress
import re
from datetime import tzinfo
from typing import Annotated, Literal, Self, TypeAlias

from pydantic import AfterValidator, Field, SecretStr, model_validator

from quota.settings.types import (
    MAX_PORT,
    Address,
    AddressOrEmpty,
    Count,
    MappingRules,
    Name,
    NameList,
    Pattern,
    Seconds,
    SecondsOrZero,
    Section,
    TimeZone,
)
from quota.text import parse_zone

ExpiringTable: TypeAlias = Literal["decisions", "dead_letters"]

_LISTENER = re.compile(r"(?P<port>[0-9]{1,5})=(?P<host>[^=\s]+):(?P<broker_port>[0-9]{1,5})")

Port = Annotated[int, Field(ge=1, le=MAX_PORT)]


class EnforceSettings(Section):
    """The query that decides requests."""

    trigger_seconds: SecondsOrZero = 0.0
    """Time between micro-batches. 0 starts the next one at once, for the lowest latency."""

    state_partitions: Annotated[int, Field(ge=1, le=10_000)] = 1
    """Number of partitions of the bucket state. Fixed by a checkpoint's first batch. With 1, a batch is a single task,
    which has the lowest latency; more use more cores."""

    with_audit: bool = False
    """Whether the audit runs in the same process."""


class AuditSettings(Section):
    """The query that writes decisions, dead letters and quota changes to Delta."""

    trigger_seconds: SecondsOrZero = 10.0
    """Time between micro-batches. More time makes fewer, larger files and staler tables."""

    upkeep_seconds: SecondsOrZero = 300.0
    """Time between upkeeps of the tables: files are compacted, old ones deleted.

    0 for none: then run `mutation-quota maintain` every day.
    """

    keep_days: dict[ExpiringTable, Annotated[int, Field(ge=1, le=36_500)]] = {}
    """Days for which rows of `decisions` or `dead_letters` are retained; all without an entry.

    Quota changes are always retained: they are few, and a backtest decides requests by the quotas of their time.
    """


class ApplierSettings(Section):
    """The applier, which carries admitted mutations out."""

    timeout_seconds: Annotated[float, Field(gt=0, le=600)] = 60.0
    """Time that the target cluster may be unreachable or busy before a mutation fails."""

    topic_pattern: Pattern = ".*"
    """Regular expression that a topic's name must match. `{user}` and `{client_id}` are replaced with those of the
    request. Names that begin with `_`, `connect-` or `mm2-`, as other services' topics do, need an alternative that
    begins so, as in `_orders|.*`.
    """

    permissive: bool = True
    """Whether mutations of old API versions, which are always admitted, are carried out. Only a gateway delays them."""

    protected_topics: NameList = []
    """Topics that are never changed, in addition to the deployment's and Kafka's own."""

    group: Name = "mutation-quota-applier"
    """Name of the applier: the key of its position in `topics.positions`, and its transactional id. Of the appliers
    with one name, the one started last is active."""


class ObserveSettings(Section):
    """Reading the request logs of brokers."""

    time_zone: TimeZone = "UTC"
    """Time zone of times in the logs that name none: that of the brokers, such as `Europe/Berlin`."""

    principal_mapping_rules: MappingRules = "DEFAULT"
    """Rules that map principals to users, as Kafka's `ssl.principal.mapping.rules`. The default makes `User:alice`
    `alice`."""

    default_partitions: Annotated[int, Field(ge=0, le=1_000_000)] = 0
    """`num.partitions` of the brokers, for logs that do not contain it. 0: unknown."""

    group: str = ""
    """Name of this observer. Of the observers with one name, the one started last is active. Empty for `observe-` and
    the host's name."""

    @property
    def zone(self) -> tzinfo:
        """The time zone."""
        return parse_zone(self.time_zone)


class DashboardSettings(Section):
    """The dashboard: a page that shows requests, tenants and quotas as they change."""

    port: Annotated[int, Field(ge=0, le=MAX_PORT)] = 8599
    """Port of the page. 0 takes any free port."""

    address: Name = "127.0.0.1"
    """IP address to listen on. Any other than this machine's loopback addresses needs `token_file`."""

    hosts: NameList = []
    """Host names by which browsers may reach the page, besides its address and localhost."""

    token_file: str = ""
    """Path of a file with only a token of 16 or more characters, which a browser must present."""

    @model_validator(mode="after")
    def _check_token(self) -> Self:
        try:
            is_local = ipaddress.ip_address(self.address).is_loopback
        except ValueError:
            raise ValueError(f"address: {self.address!r} is not an IP address, such as 127.0.0.1 or 0.0.0.0") from None
        if not (is_local or self.token_file):
            raise ValueError(f"address: {self.address} is reachable from other machines, which requires token_file")
        return self


def _check_listeners(listeners: list[str]) -> list[str]:
    for listener in listeners:
        match = _LISTENER.fullmatch(listener)
        if match is None or not all(1 <= int(match[part]) <= MAX_PORT for part in ("port", "broker_port")):
            raise ValueError(f"{listener!r} is not PORT=HOST:PORT, such as 19092=kafka-1:9094")
    ports = [int(listener.partition("=")[0]) for listener in listeners]
    for port in ports:
        if ports.count(port) > 1:
            raise ValueError(f"port {port} is given to two brokers")
    return listeners


class GatewaySettings(Section):
    """The gateway, which speaks Kafka's protocol in front of the target cluster."""

    address: Address = "127.0.0.1"
    """Address to listen on. `0.0.0.0` accepts all that reach this machine by IPv4, `::` also by IPv6."""

    advertised_host: AddressOrEmpty = ""
    """Host by which clients reach the gateway. Empty for `address`."""

    advertised_by: Literal["gateway", "brokers"] = "gateway"
    """Who advertises the gateway's addresses: the `gateway`, by rewriting brokers' responses, or the `brokers`, by a
    listener for it."""

    first_port: Port = 19_092
    """Port of the broker with node id 1; broker 2 has the next one, and so on, whether or not all brokers are up. Node
    id 0 has the port of node id 1000. Unused with `listeners`."""

    listeners: Annotated[NameList, AfterValidator(_check_listeners)] = []
    """Port and broker of each listener, as `19092=kafka-1:9094`. Empty finds the brokers."""

    reuse_port: bool = False
    """Whether other gateways of this machine's user may listen on the same ports, to use more cores: the kernel divides
    the connections among them (SO_REUSEPORT). Each needs a `metrics.port` of its own."""

    when_silent: Literal["closed", "open"] = "closed"
    """While no request is decided: return an error (`closed`), or proceed as far as a client's bucket goes (`open`)."""

    decision_timeout_seconds: Seconds = 10.0
    """Time that a decision may take, unless the client's own timeout is shorter."""

    permissive: bool = True
    """Whether clients of old API versions may change topics. They are never rejected, only muted (KIP-599)."""

    default_partitions: Count = 1
    """Cost of a topic with the default number of partitions, for clients that may not describe its configs."""

    oauth_subject_claim: Name = "sub"
    """Claim of an OAUTHBEARER token that names the user, as Kafka's `sasl.oauthbearer.sub.claim.name`. Of several,
    separated by commas, the first in the token: `preferred_username,service-account-{client_id}`."""

    max_connections: Count = 10_000
    """Maximum number of connections. Each needs two file descriptors."""

    ssl_certificate_location: str = ""
    """Path of the gateway's certificate with its chain (PEM). Empty for clients without TLS."""

    ssl_key_location: str = ""
    """Path of its private key (PEM, PKCS#8). Required with `ssl_certificate_location`."""

    ssl_key_password: SecretStr = SecretStr("")
    """Password of the private key, if it is encrypted."""

    ssl_client_auth: Literal["none", "requested", "required"] = "none"
    """Whether clients need certificates, Kafka's `ssl.client.auth`. Without SASL they identify the user."""

    ssl_ca_location: str = ""
    """Path of the CA certificates to trust for clients' certificates (PEM). Required unless `ssl_client_auth=none`."""

    ssl_principal_mapping_rules: MappingRules = "DEFAULT"
    """Rules that map subjects of clients' certificates to users: the brokers' `ssl.principal.mapping.rules`."""

    ssl_issuer_certificate_location: str = ""
    """Path of the certificate of the gateway's own CA (PEM), which signs certificates for clients at the brokers. Empty
    for none."""

    ssl_issuer_key_location: str = ""
    """Path of its private key (PEM). Required with `ssl_issuer_certificate_location`."""

    ssl_issuer_key_password: SecretStr = SecretStr("")
    """Password of the private key, if it is encrypted."""

    @property
    def ports(self) -> list[tuple[int, tuple[str, int]]]:
        """Each listener's port, and host and port of its broker."""
        matches = [match for listener in self.listeners if (match := _LISTENER.fullmatch(listener))]
        return [(int(match["port"]), (match["host"].strip("[]"), int(match["broker_port"]))) for match in matches]

    @model_validator(mode="after")
    def _check_listeners_and_certificates(self) -> Self:
        for prefix in ("ssl", "ssl_issuer"):
            certificate, key = f"{prefix}_certificate_location", f"{prefix}_key_location"
            if bool(getattr(self, certificate)) != bool(getattr(self, key)):
                raise ValueError(f"set {certificate} and {key} together")
        if self.ssl_client_auth != "none" and not (self.ssl_certificate_location and self.ssl_ca_location):
            raise ValueError(
                f"ssl_client_auth={self.ssl_client_auth} requires ssl_certificate_location and ssl_ca_location"
            )
        if self.ssl_issuer_certificate_location and self.ssl_client_auth == "none":
            raise ValueError("ssl_issuer_certificate_location requires ssl_client_auth")
        if self.advertised_by == "brokers" and not self.listeners:
            raise ValueError(
                "advertised_by=brokers requires listeners, because brokers advertise the gateway's addresses"
            )
        return self
