"""Where the logs of a topic's replicas end, with the records that no consumer can read yet."""

import asyncio
import logging
import ssl
from collections.abc import Mapping
from contextlib import AsyncExitStack
from typing import Self

from quota.gateway.addresses import Address
from quota.kafka.brokers.connection import FAILURES, BrokerCalls, connected, failure_reason, log_in, tls_context
from quota.settings.connection import Connection, Security
from quota.wire.builtin import BUILTIN

_log = logging.getLogger(__name__)

_LIST_OFFSETS = 2
_ANY_REPLICA = -2
"""The id of a client for debugging, whom each replica tells the end of its log instead of the high watermark."""
_LATEST = -1
_NO_EPOCH = -1

_ANSWER_SECONDS = 3.0
"""How long a replica may take, with the login. One that hangs for longer leaves the ISR, and is not asked again."""

_CLIENT_ID = "mutation-quota"


class ReplicaEnds:
    """The ends of a topic's logs on its replicas. Connections are kept.

    A leader stamps a record when it appends it, and shows it to consumers when all replicas in sync have it. The
    highest end of all replicas' logs is behind each record that was stamped before the question.
    """

    def __init__(self, connection: Connection, topic: str) -> None:
        """Take a topic, whose brokers are connected to when they are asked.

        Args:
            connection: the cluster; only its TLS and SASL count.
            topic: the topic's name.
        """
        self._security = connection.security
        self._context = tls_context(self._security)
        self._topic = topic
        self._runner = asyncio.Runner()
        self._brokers: dict[Address, _Broker] = {}
        self._warned: set[str] = set()

    def close(self) -> None:
        """Close the connections."""
        for broker in self._brokers.values():
            self._runner.run(broker.close())
        self._runner.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def fetch(self, replicas: Mapping[Address, list[int]]) -> dict[int, int]:
        """Return the highest end of each partition's logs, the next offset.

        Args:
            replicas: the brokers to ask, each for the partitions of which it has a replica.

        Returns:
            The ends by partition. A partition is missing if none of its replicas answers in time, which is
            logged as a warning once for each reason.
        """
        return self._runner.run(self._fetch(replicas))

    async def _fetch(self, replicas: Mapping[Address, list[int]]) -> dict[int, int]:
        found: dict[int, int] = {}
        for ends in await asyncio.gather(*(self._ask(*each) for each in replicas.items())):
            found |= {partition: max(end, found.get(partition, end)) for partition, end in ends.items()}
        return found

    async def _ask(self, address: Address, partitions: list[int]) -> dict[int, int]:
        broker = self._brokers.setdefault(address, _Broker(address, self._context))
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                return await broker.ends(self._security, self._topic, partitions)
        except FAILURES as error:
            await broker.close()
            self._warn(address, failure_reason(error))
            return {}

    def _warn(self, address: Address, reason: str) -> None:
        text = f"{address[0]}:{address[1]} does not say where its replica of topic {self._topic} ends: {reason}"
        if text not in self._warned:
            self._warned.add(text)
            _log.warning("%s", text)


class _Broker:
    """A broker, and the connection to it, if there is one."""

    def __init__(self, address: Address, context: ssl.SSLContext | None) -> None:
        self._address = address
        self._context = context
        self._calls: BrokerCalls | None = None
        self._open = AsyncExitStack()

    async def ends(self, security: Security, topic: str, partitions: list[int]) -> dict[int, int]:
        """Return where its replicas end; on another connection if the present one was closed, for being idle or old."""
        if self._calls is not None:
            try:
                return await _ends(self._calls, topic, partitions)
            except (ConnectionError, EOFError):
                await self.close()
        self._calls = await self._open.enter_async_context(connected(self._address, self._context, BUILTIN, _CLIENT_ID))
        await log_in(self._calls, security)
        return await _ends(self._calls, topic, partitions)

    async def close(self) -> None:
        """Close the connection."""
        self._calls = None
        await self._open.aclose()


async def _ends(calls: BrokerCalls, topic: str, partitions: list[int]) -> dict[int, int]:
    """Return where a broker's replicas end; those that it does not have are missing."""
    asked = [{"partitionIndex": each, "currentLeaderEpoch": _NO_EPOCH, "timestamp": _LATEST} for each in partitions]
    message = {"replicaId": _ANY_REPLICA, "isolationLevel": 0, "topics": [{"name": topic, "partitions": asked}]}
    answer = await calls.call(_LIST_OFFSETS, 4, message)
    return {
        each["partitionIndex"]: each["offset"]
        for found in answer["topics"]
        for each in found["partitions"]
        if not each["errorCode"]
    }
