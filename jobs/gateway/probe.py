"""The gateway's own connections to brokers: for the addresses that they advertise, and to check whether one responds.

librdkafka cannot do this: it connects to each address in the response, and the gateway does not listen yet.
"""

import asyncio
import logging
import ssl
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from jobs.gateway.encryption import Encryption, certificate_requests
from quota.errors import BadInput, ClusterError, MutationQuotaError
from quota.gateway.stats import GatewayStats
from quota.kafka.brokers.broker_calls import FAILURES, connected, log_in
from quota.kafka.brokers.tokens import failure_reason
from quota.settings.connection import Security
from quota.wire.described import METADATA_VERSION
from quota.wire.protocol import Address, ApiKey, Protocol

if TYPE_CHECKING:
    from jobs.gateway.server import GatewayServer

_log = logging.getLogger(__name__)

_Ask = Callable[[Address], Awaitable[dict[int, Address]]]

CLIENT_ID = "mutation-quota-gateway"
"""The client-id of the gateway's own connections."""
_CHECK_SECONDS = 10.0
_ANSWER_SECONDS = 5.0


async def advertised_addresses(
    brokers: Sequence[Address], security: Security, encryption: Encryption, protocol: Protocol, seconds: float
) -> dict[int, Address]:
    """Return the addresses that brokers advertise, by node id."""
    advertised: dict[int, Address] = {}
    failures = []
    for host, port in brokers:
        try:
            async with asyncio.timeout(seconds):
                context = await encryption.context_for(encryption.own)
                if context is None or security.has_sasl:
                    advertised |= await _read((host, port), security, context, protocol)
                else:
                    advertised |= await _read_if_identified(
                        (host, port), security, context, protocol, by_certificates=encryption.rules is not None
                    )
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
    broker: Address, security: Security, context: ssl.SSLContext | None, protocol: Protocol
) -> dict[int, Address]:
    async with connected(broker, context, protocol, CLIENT_ID) as calls:
        if calls.versions.get(ApiKey.METADATA, 0) < METADATA_VERSION:
            raise BadInput(
                f"the broker at {broker[0]}:{broker[1]} is too old for the gateway; it needs Kafka 3.1 or newer"
            )
        await log_in(calls, security)
        answer = await calls.call(ApiKey.METADATA, METADATA_VERSION, {"topics": [], "allowAutoTopicCreation": False})
        return {node["nodeId"]: (node["host"], node["port"]) for node in answer["brokers"]}


async def _read_if_identified(
    broker: Address,
    security: Security,
    context: ssl.SSLContext,
    protocol: Protocol,
    *,
    by_certificates: bool,
) -> dict[int, Address]:
    """Return the addresses from a listener with TLS and without SASL, if it requests certificates as expected."""
    listener = f"gateway: the listener at {broker[0]}:{broker[1]}"
    rejected = BadInput(
        f"{listener} requests client certificates (ssl.client.auth); set gateway.ssl_client_auth and "
        "gateway.ssl_issuer_certificate_location, use a listener with SASL_SSL for the gateway, or set "
        "ssl.client.auth=none there if all clients may be ANONYMOUS (docs/how-to/gateway.md)"
    )
    with certificate_requests(context) as requests:
        try:
            advertised = await _read(broker, security, context, protocol)
        except (OSError, EOFError, MutationQuotaError):
            if requests and not by_certificates:
                raise rejected from None
            raise
    if requests and not by_certificates:
        raise rejected
    if by_certificates and not requests:
        raise BadInput(
            f"{listener} does not request client certificates, so that all clients would be ANONYMOUS there; set its "
            "ssl.client.auth=required (docs/how-to/gateway.md)"
        )
    return advertised


async def follow_brokers(
    brokers: Mapping[int, Address], encryption: Encryption, protocol: Protocol, stats: GatewayStats
) -> None:
    """Regularly record in `stats` whether one of the brokers, by their ports, responds, until cancelled.

    One broker that responds is enough: clients notice themselves which brokers are unavailable.
    """
    while True:
        try:
            context = await encryption.context_for(encryption.own)
            stats.broker_failure = await broker_failure(list(brokers.values()), context, protocol)
        except Exception as error:  # noqa: BLE001 nobody else would see that it ended
            stats.broker_failure = f"{type(error).__name__}: {error}"
        await asyncio.sleep(_CHECK_SECONDS)


async def follow_joins(server: "GatewayServer", bootstrap: Sequence[Address], ask: _Ask) -> None:
    """Regularly add brokers that have joined, or have another address now, to the server, until cancelled.

    `ask` returns the addresses that a broker advertises, by node id, and checks its listener. The brokers of the last
    answer are asked, then those of `bootstrap`. A new broker has to answer too, with its own address. What fails is
    tried again, and logged once.
    """
    known: Sequence[Address] = []
    logged = set[str]()
    while True:
        await asyncio.sleep(_CHECK_SECONDS)
        failures = set[str]()
        advertised = await _first_answer([*known, *bootstrap], ask)
        for node, broker in advertised.items():
            try:
                if not server.serves(node, broker):
                    await _check_address(node, broker, ask)
                    await server.join(node, broker)
            except Exception as error:  # noqa: BLE001 nobody else would see that it ended
                reason = error if isinstance(error, MutationQuotaError) else repr(error)
                failures.add(f"the broker with node id {node} has no port of this gateway: {reason}")
        for failure in failures - logged:
            _log.error("%s", failure)
        known, logged = list(advertised.values()) or known, failures


async def _check_address(node: int, broker: Address, ask: _Ask) -> None:
    """Check that the broker at an address advertises it as its own."""
    if (await ask(broker)).get(node) != broker:
        raise ClusterError(f"{broker[0]}:{broker[1]} does not advertise this address itself")


async def _first_answer(brokers: Sequence[Address], ask: _Ask) -> dict[int, Address]:
    """Return what the first broker that answers advertises; nothing if none does, which is noticed elsewhere."""
    for broker in brokers:
        with suppress(Exception):
            return await ask(broker)
    return {}


async def broker_failure(brokers: Sequence[Address], context: ssl.SSLContext | None, protocol: Protocol) -> str:
    """Return the reason why no broker responds; an empty string if one does. Brokers are tried one after the other.

    ApiVersions is requested, which needs no login.
    """
    failures = []
    for broker in brokers:
        try:
            async with asyncio.timeout(_ANSWER_SECONDS), connected(broker, context, protocol, CLIENT_ID):
                return ""
        except FAILURES as error:
            failures.append(f"{broker[0]}:{broker[1]}: {failure_reason(error)}")
    return "; ".join(failures)
