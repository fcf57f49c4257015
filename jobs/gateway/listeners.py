"""The gateway's ports, the broker behind each, and the addresses that are advertised to clients."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from quota.errors import BadInput
from quota.gateway.addresses import Addresses
from quota.settings.gateway import GatewaySettings
from quota.settings.types import MAX_PORT
from quota.wire.protocol import Address

_ANY_ADDRESS = frozenset({"0.0.0.0", "::", "*"})  # noqa: S104 these are rejected


@dataclass(frozen=True, slots=True)
class Listener:
    """A port of the gateway, and the broker behind it."""

    port: int
    broker: Address


def plan_listeners(settings: GatewaySettings, advertised: Mapping[int, Address]) -> tuple[list[Listener], Addresses]:
    """Return the listeners, and the rule for the addresses in responses."""
    host, _ = own_address(settings, settings.first_port)
    if host in _ANY_ADDRESS:
        raise BadInput(
            f"clients cannot connect to {host}: set gateway.advertised_host to a name that clients can reach"
        )
    listeners = [Listener(*port) for port in settings.ports] or [
        listener_of(settings.first_port, node, broker) for node, broker in sorted(advertised.items())
    ]
    own = [own_address(settings, listener.port) for listener in listeners]
    if settings.advertised_by == "brokers":
        addresses = Addresses({address: address for address in own})
        advice = "the brokers' advertised.listeners must name the gateway's ports, or gateway.advertised_by=gateway"
    else:
        addresses = Addresses(dict(zip((listener.broker for listener in listeners), own, strict=True)))
        advice = "gateway.listeners must name each broker as it is advertised"
    if foreign := addresses.foreign(advertised.values()):
        raise BadInput(
            f"clients would bypass the gateway: brokers advertise {_join(foreign)}, but the gateway's addresses are "
            f"{_join(addresses.advertised)}; {advice}"
        )
    return listeners, addresses


def own_address(settings: GatewaySettings, port: int) -> Address:
    """Return the address by which clients reach a port of the gateway."""
    return settings.advertised_host or settings.address, port


def listener_of(first_port: int, node: int, broker: Address) -> Listener:
    """Return the listener for a broker, on a port that follows from its node id, whichever other brokers there are."""
    port = first_port + node - 1
    if not 1 <= port <= MAX_PORT:
        raise BadInput(
            f"gateway.first_port={first_port}: the broker with node id {node} would have port {port}; give its port in "
            "gateway.listeners"
        )
    return Listener(port, broker)


def _join(addresses: Sequence[Address]) -> str:
    return ", ".join(f"{host}:{port}" for host, port in addresses)
