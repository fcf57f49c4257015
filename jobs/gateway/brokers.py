"""The connections to brokers: those of clients, and the gateway's own.

On its own connections, the gateway asks for the addresses that brokers advertise, and checks whether one responds.
librdkafka cannot do this: it connects to each address in the response, and the gateway does not listen yet.
"""

import asyncio
import logging
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import cast

from jobs.gateway.encryption import Encryption
from quota.errors import BadInput, ClusterError, MutationQuotaError
from quota.gateway.stats import GatewayStats
from quota.kafka.brokers.broker_calls import FAILURES, connected, log_in
from quota.kafka.brokers.tokens import failure_reason
from quota.kafka.timing import Every
from quota.settings.connection import Security
from quota.wire.described import METADATA_VERSION
from quota.wire.protocol import Address, ApiKey, Protocol

_log = logging.getLogger(__name__)

CLIENT_ID = "mutation-quota-gateway"
"""The client-id of the gateway's own connections."""
CHECK_SECONDS = 10.0
"""The time between two looks at the brokers."""
_RETRY_SECONDS = 1.0
"""The same for a broker that does not respond."""
_FENCED_VERSION = 2
"""The first version of DescribeCluster that tells the brokers that are registered and down (KIP-1073)."""
_ANSWER_SECONDS = 5.0
_PROBES = {"TCP_KEEPIDLE": 60, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 3}
"""When a vanished peer is noticed: after a minute without data, and three unanswered probes ten seconds apart."""
_DELIVERY_SECONDS = 30.0
"""How long the rest of what a client has sent is kept for its broker after it has left: as `asyncio` does with TLS."""


class BrokerConnection(asyncio.Protocol):
    """The connection to a broker that belongs to one client."""

    __slots__ = ("_late", "_lost", "_received", "_set_slow", "transport")

    def __init__(
        self, received: Callable[[bytes], None], lost: Callable[[], None], set_slow: Callable[[bool], None]
    ) -> None:
        """Take what is called with the broker's bytes, when the connection ends, and when the broker reads or not."""
        self._received = received
        self._lost = lost
        self._set_slow = set_slow
        self._late: asyncio.TimerHandle | None = None
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Store the transport."""
        self.transport = cast("asyncio.Transport", transport)
        keep_alive(transport)

    def data_received(self, data: bytes) -> None:
        """Pass the broker's bytes to the client's connection."""
        self._received(data)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 the cause is irrelevant
        """Close the client's connection; the client reconnects when the broker is available again."""
        self.transport = None
        if self._late is not None:
            self._late.cancel()
        self._lost()

    def pause_writing(self) -> None:
        """Pause the client's connection while the broker does not read."""
        self._set_slow(True)

    def resume_writing(self) -> None:
        """Resume the client's connection when the broker reads again."""
        self._set_slow(False)

    def write(self, data: bytes) -> None:
        """Send bytes to the broker."""
        if self.transport is not None:
            self.transport.write(data)

    def pause_reading(self) -> None:
        """Stop reading the broker's bytes."""
        if transport := not_closing(self.transport):
            transport.pause_reading()

    def resume_reading(self) -> None:
        """Resume reading the broker's bytes."""
        if transport := not_closing(self.transport):
            transport.resume_reading()

    def close(self) -> None:
        """Close the connection once sent data is delivered, for which a broker that hangs has half a minute."""
        if transport := not_closing(self.transport):
            transport.close()
        if self.transport is not None and self._late is None:
            self._late = asyncio.get_running_loop().call_later(_DELIVERY_SECONDS, self.transport.abort)


def not_closing(transport: asyncio.Transport | None) -> asyncio.Transport | None:
    """Return a transport that is not closing yet; that of TLS can no longer be aborted if it is closed twice."""
    return None if transport is None or transport.is_closing() else transport


def keep_alive(transport: asyncio.BaseTransport) -> None:
    """Have the kernel close a connection whose other side has vanished, also while nothing is sent or read."""
    connection = transport.get_extra_info("socket")
    if connection is None:
        return
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, seconds in _PROBES.items():
        if option := getattr(socket, name, None):  # not on all systems
            connection.setsockopt(socket.IPPROTO_TCP, option, seconds)


async def advertised_addresses(  # noqa: PLR0913
    brokers: Sequence[Address],
    security: Security,
    encryption: Encryption,
    protocol: Protocol,
    seconds: float,
    *,
    with_down: bool = False,
) -> dict[int, Address]:
    """Return the addresses that brokers advertise, by node id; also of those that are down, if brokers tell them."""
    advertised: dict[int, Address] = {}
    failures = []
    for host, port in brokers:
        try:
            async with asyncio.timeout(seconds):
                context = await encryption.context_for(encryption.own)
                read = partial(_read, (host, port), security, context, protocol, with_down=with_down)
                if context is None or security.has_sasl:
                    advertised |= await read()
                else:
                    listener, by_certificates = f"gateway: the listener at {host}:{port}", encryption.rules is not None
                    found = _read_if_identified(read, listener, context, by_certificates=by_certificates)
                    advertised |= await found
        except FAILURES as error:
            if isinstance(error, BadInput):
                raise
            failures.append(f"cannot read the addresses that {host}:{port} advertises: {failure_reason(error)}")
    if not advertised:
        raise ClusterError("; ".join(failures))
    for failure in failures:
        _log.warning("%s", failure)
    return advertised


async def _read(
    broker: Address, security: Security, context: ssl.SSLContext | None, protocol: Protocol, *, with_down: bool
) -> dict[int, Address]:
    async with connected(broker, context, protocol, CLIENT_ID) as calls:
        if calls.versions.get(ApiKey.METADATA, 0) < METADATA_VERSION:
            raise BadInput(
                f"the broker at {broker[0]}:{broker[1]} is too old for the gateway; it needs Kafka 3.1 or newer"
            )
        await log_in(calls, security)
        answer = await calls.call(ApiKey.METADATA, METADATA_VERSION, {"topics": [], "allowAutoTopicCreation": False})
        advertised = {node["nodeId"]: (node["host"], node["port"]) for node in answer["brokers"]}
        if with_down and (calls.version_of(ApiKey.DESCRIBE_CLUSTER) or 0) >= _FENCED_VERSION:
            all_brokers = {"includeClusterAuthorizedOperations": False, "endpointType": 1, "includeFencedBrokers": True}
            answer = await calls.call(ApiKey.DESCRIBE_CLUSTER, _FENCED_VERSION, all_brokers)
            advertised |= {node["brokerId"]: (node["host"], node["port"]) for node in answer["brokers"]}
        return advertised


async def _read_if_identified(
    read: Callable[[], Awaitable[dict[int, Address]]], listener: str, context: ssl.SSLContext, *, by_certificates: bool
) -> dict[int, Address]:
    """Return the addresses from a listener with TLS and without SASL, if it requests certificates as expected."""
    advertised: dict[int, Address] = {}
    with certificate_requests(context) as requests:
        try:
            advertised = await read()
        except (OSError, EOFError, MutationQuotaError):
            if by_certificates or not requests:
                raise
    if requests and not by_certificates:
        raise BadInput(
            f"{listener} requests client certificates (ssl.client.auth); set gateway.ssl_client_auth and "
            "gateway.ssl_issuer_certificate_location, use a listener with SASL_SSL for the gateway, or set "
            "ssl.client.auth=none there if all clients may be ANONYMOUS (docs/how-to/gateway/authentication.md)"
        )
    if by_certificates and not requests:
        raise BadInput(
            f"{listener} does not request client certificates, so that all clients would be ANONYMOUS there; set its "
            "ssl.client.auth=required (docs/how-to/gateway/authentication.md)"
        )
    return advertised


_is_asking = ContextVar("is_asking", default=False)
"""Whether the present task asks for `certificate_requests`; `asyncio` calls its connections in the same context."""


@contextmanager
def certificate_requests(context: ssl.SSLContext) -> Iterator[list[str]]:
    """Yield a list to which an entry is added when a broker requests a client's certificate.

    Only connections that are made inside the block count. `ssl` has no public interface for this.
    """
    requests: list[str] = []
    asking = _is_asking.set(True)

    def note(_connection: object, _direction: str, _version: object, _content: object, kind: object, _: bytes) -> None:
        name = getattr(kind, "name", "")
        if name == "CERTIFICATE_REQUEST" and _is_asking.get():
            requests.append(name)

    context._msg_callback = note  # type: ignore[attr-defined]  # noqa: SLF001
    try:
        yield requests
    finally:
        context._msg_callback = None  # type: ignore[attr-defined]  # noqa: SLF001
        _is_asking.reset(asking)


async def follow_brokers(
    brokers: Mapping[int, Address], encryption: Encryption, protocol: Protocol, stats: GatewayStats
) -> None:
    """Regularly record in `stats` which of the brokers, by their ports, respond, until cancelled.

    One that does not is checked each second, because the connections to its port lead to another one until it does.
    """
    check_all = Every(CHECK_SECONDS)
    while True:
        all_are_due = check_all.is_due()
        due = [port for port in brokers if all_are_due or stats.broker_failures.get(port)]
        failures = await asyncio.gather(*(broker_failure(brokers[port], encryption, protocol) for port in due))
        for port, failure in zip(due, failures, strict=True):
            stats.set_broker(port, failure)
        await asyncio.sleep(_RETRY_SECONDS)


async def broker_failure(broker: Address, encryption: Encryption, protocol: Protocol) -> str:
    """Return the reason why a broker does not respond, with its address; an empty string if it does.

    ApiVersions is requested, which needs no login.
    """
    try:
        context = await encryption.context_for(encryption.own)
        async with asyncio.timeout(_ANSWER_SECONDS), connected(broker, context, protocol, CLIENT_ID):
            return ""
    except FAILURES as error:
        reason = failure_reason(error)
    except Exception as error:  # noqa: BLE001 nobody else would see that the checks ended
        reason = repr(error)
    return f"{broker[0]}:{broker[1]}: {reason}"
