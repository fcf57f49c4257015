"""A connection to a cluster: its servers, TLS and SASL, in the form for each kind of client."""

import ipaddress
from dataclasses import dataclass, field

from quota.settings.security.clients import Security

BOOTSTRAP_SERVERS, SECURITY_PROTOCOL = "kafka.bootstrap_servers", "kafka.security_protocol"
"""The settings of the servers and of the protocol of the cluster that decides."""

_PORT = 9092


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
        if not all(_is_loopback(host) for host, _ in self.addresses):
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


def _is_loopback(host: str) -> bool:
    """Return whether a host is this machine, by its name or address alone."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
