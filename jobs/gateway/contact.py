"""Checks whether a running gateway can reach a broker."""

import asyncio
import ssl
from collections.abc import Sequence

from quota.gateway.stats import GatewayStats
from quota.kafka.brokers.connection import FAILURES, connected, failure_reason
from quota.wire.protocol import Address, Protocol

_CHECK_SECONDS = 10.0
_ANSWER_SECONDS = 5.0
_CLIENT_ID = "mutation-quota-gateway"


async def follow_brokers(
    brokers: Sequence[Address], context: ssl.SSLContext | None, protocol: Protocol, stats: GatewayStats
) -> None:
    """Regularly record in `stats` whether a broker responds, until cancelled.

    One broker that responds is enough: clients notice themselves which brokers are unavailable.
    """
    while True:
        stats.broker_failure = await broker_failure(brokers, context, protocol)
        await asyncio.sleep(_CHECK_SECONDS)


async def broker_failure(brokers: Sequence[Address], context: ssl.SSLContext | None, protocol: Protocol) -> str:
    """Return the reason why no broker responds; an empty string if one does. Brokers are tried one after the other.

    ApiVersions is requested, which needs no login.
    """
    failures = []
    for broker in brokers:
        try:
            async with asyncio.timeout(_ANSWER_SECONDS), connected(broker, context, protocol, _CLIENT_ID):
                return ""
        except FAILURES as error:
            failures.append(f"{broker[0]}:{broker[1]}: {failure_reason(error)}")
    return "; ".join(failures)
