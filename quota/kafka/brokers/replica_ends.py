"""The log end offsets of a topic's replicas, which include records that no consumer can read yet."""

import asyncio
import logging
import ssl
from collections.abc import Mapping
from contextlib import AsyncExitStack
from functools import cache
from typing import NamedTuple

from confluent_kafka import KafkaError

from quota.errors import ClusterError, ErrorCode
from quota.kafka.brokers.broker_calls import FAILURES, BrokerCalls, connected, log_in, tls_context
from quota.kafka.brokers.tokens import failure_reason
from quota.kafka.timing import Deadline, Every
from quota.settings.connection import Connection, Security
from quota.wire.protocol import Address, ApiKey, Protocol

_log = logging.getLogger(__name__)

_protocol = cache(Protocol.of_messages)

_VERSION = 4
_ANY_REPLICA = -2
"""The replica id of a debugging client: each replica returns its log end offset to it instead of the high watermark."""
_LATEST = -1
_NO_EPOCH = -1
_NO_REPLICA = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NOT_LEADER_OR_FOLLOWER})

_CONNECT_SECONDS = 8.0
"""How long a connection may take, with the login and the token for it."""
_RESPONSE_SECONDS = 3.0
_SKIP_SECONDS = 10.0
"""How long a broker that timed out is skipped, so that it does not delay each read [s]."""
_WARN_SECONDS = 300.0
_MAX_WARNINGS = 100
"""The number of different warnings that are logged every five minutes; reasons may have times in them."""


class Ends(NamedTuple):
    """The log end offsets of partitions."""

    offsets: dict[int, int]
    """The highest log end offset of each partition's replicas; a partition is missing if no replica responds."""
    complete: bool
    """Whether all replicas have responded. Then a lower offset than before means that records were lost."""

    def without_lost(self, offsets: dict[int, int]) -> dict[int, int]:
        """Return earlier end offsets, reduced by records that were lost since: those that only a failed leader had."""
        return {number: min(end, self.offsets[number]) for number, end in offsets.items()} if self.complete else offsets


class ReplicaEnds:
    """The log end offsets of a topic's replicas. Connections are reused.

    A leader stamps a record when it appends it, and shows it to consumers when all replicas in sync have it. So the
    highest log end offset of all replicas is greater than the offset of every record that was stamped before the call.
    """

    def __init__(self, connection: Connection, topic: str) -> None:
        """Store the topic; connections to its brokers are opened when needed."""
        self._security = connection.security
        self._context = tls_context(self._security)
        self._topic = topic
        self._runner = asyncio.Runner()
        self._brokers: dict[Address, _Broker] = {}
        self._warnings: dict[str, Every] = {}

    def close(self) -> None:
        """Close the connections."""
        self._runner.run(self._keep(()))
        self._runner.close()

    def fetch(self, replicas: Mapping[Address, list[int]]) -> Ends:
        """Return the log end offsets of replicas.

        A broker that fails is logged as a warning, every five minutes for the same reason. If it timed out, it is
        skipped for the next ten seconds.
        """
        return self._runner.run(self._fetch(replicas))

    async def _fetch(self, replicas: Mapping[Address, list[int]]) -> Ends:
        await self._keep(replicas)
        broker_ends = await asyncio.gather(*(self._fetch_from(*item) for item in replicas.items()))
        offsets: dict[int, int] = {}
        for ends in broker_ends:
            offsets |= {partition: max(end, offsets.get(partition, end)) for partition, end in ends.items()}
        requested = sum(map(len, replicas.values()))
        return Ends(offsets, complete=sum(map(len, broker_ends)) == requested)

    async def _keep(self, addresses: "Mapping[Address, list[int]] | tuple[()]") -> None:
        """Close the connections to other brokers."""
        for address in self._brokers.keys() - addresses:
            await self._brokers.pop(address).close()

    async def _fetch_from(self, address: Address, partitions: list[int]) -> dict[int, int]:
        broker = self._brokers.setdefault(address, _Broker(address, self._context))
        if not broker.skipped_until.has_passed:
            return {}
        try:
            return await broker.ends(self._security, self._topic, partitions)
        except FAILURES as error:
            await broker.close()
            if isinstance(error, TimeoutError):
                broker.skipped_until = Deadline(_SKIP_SECONDS)
            self._warn(f"{address[0]}:{address[1]}", failure_reason(error))
            return {}

    def _warn(self, address: str, reason: str) -> None:
        text = f"{address} does not return the log end offset of its replica of topic {self._topic}: {reason}"
        if len(self._warnings) >= _MAX_WARNINGS:
            self._warnings.clear()
        if self._warnings.setdefault(text, Every(_WARN_SECONDS)).is_due():
            _log.warning("%s", text)


class _Broker:
    """A broker, and the connection to it, if there is one."""

    def __init__(self, address: Address, context: ssl.SSLContext | None) -> None:
        self.skipped_until = Deadline(0)
        self._address = address
        self._context = context
        self._calls: BrokerCalls | None = None
        self._open = AsyncExitStack()

    async def ends(self, security: Security, topic: str, partitions: list[int]) -> dict[int, int]:
        """Return the log end offsets of its replicas; reconnects if the connection was idle for too long or expired."""
        if self._calls is not None:
            try:
                return await _ends(self._calls, topic, partitions)
            except (ConnectionError, EOFError):
                await self.close()
        async with asyncio.timeout(_CONNECT_SECONDS):
            made = connected(self._address, self._context, _protocol())
            self._calls = await self._open.enter_async_context(made)
            await log_in(self._calls, security)
        return await _ends(self._calls, topic, partitions)

    async def close(self) -> None:
        self._calls = None
        await self._open.aclose()


async def _ends(calls: BrokerCalls, topic: str, partitions: list[int]) -> dict[int, int]:
    """Return the log end offsets of a broker's replicas; those that it does not have are missing."""
    requested = [
        {"partitionIndex": partition, "currentLeaderEpoch": _NO_EPOCH, "timestamp": _LATEST} for partition in partitions
    ]
    message = {"replicaId": _ANY_REPLICA, "isolationLevel": 0, "topics": [{"name": topic, "partitions": requested}]}
    async with asyncio.timeout(_RESPONSE_SECONDS):
        response = await calls.call(ApiKey.LIST_OFFSETS, _VERSION, message)
    responses = [partition for of_topic in response["topics"] for partition in of_topic["partitions"]]
    for code in {partition["errorCode"] for partition in responses} - {ErrorCode.NONE} - _NO_REPLICA:
        raise ClusterError(str(KafkaError(code).str()))
    return {partition["partitionIndex"]: partition["offset"] for partition in responses if not partition["errorCode"]}
