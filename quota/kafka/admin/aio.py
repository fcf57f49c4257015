"""`AIOQuotaAdminClient`: the client for asyncio."""

import asyncio
from types import TracebackType
from typing import Any, Self

from confluent_kafka.admin import NewPartitions, NewTopic

from quota.kafka.admin.client import QuotaAdminClient
from quota.kafka.admin.dispatcher import Futures

AIOFutures = dict[str, "asyncio.Future[None]"]


class AIOQuotaAdminClient:
    """`QuotaAdminClient` with asyncio's futures; it never blocks the event loop.

    An asynchronous context manager: it connects on entering, and waits for pending calls on leaving. Arguments,
    errors and futures are those of `QuotaAdminClient`.
    """

    def __init__(self, conf: dict[str, Any] | None = None, **kwargs: Any) -> None:  # noqa: ANN401 as AdminClient's
        """Store the configuration, which is that of `QuotaAdminClient`.

        The client connects when the `async with` block is entered, which raises BadInput or ClusterError as
        `QuotaAdminClient` does. Before that, its methods raise RuntimeError.

        Args:
            conf: librdkafka's properties, as for AdminClient, and settings of this project.
            kwargs: the same, by keyword.
        """
        self._conf = {**(conf or {}), **kwargs}
        self._connected: QuotaAdminClient | None = None

    async def __aenter__(self) -> Self:
        self._connected = await asyncio.to_thread(QuotaAdminClient, self._conf)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self._client.close, wait=kind is None)

    def create_topics(self, new_topics: list[NewTopic], **options: Any) -> AIOFutures:  # noqa: ANN401
        """Create topics; see `QuotaAdminClient.create_topics`."""
        return _awaitable(self._client.create_topics(new_topics, **options))

    def create_partitions(self, new_partitions: list[NewPartitions], **options: Any) -> AIOFutures:  # noqa: ANN401
        """Add partitions to topics; see `QuotaAdminClient.create_partitions`."""
        return _awaitable(self._client.create_partitions(new_partitions, **options))

    def delete_topics(self, topics: list[str], **options: Any) -> AIOFutures:  # noqa: ANN401
        """Delete topics; see `QuotaAdminClient.delete_topics`."""
        return _awaitable(self._client.delete_topics(topics, **options))

    @property
    def _client(self) -> QuotaAdminClient:
        if self._connected is None:
            raise RuntimeError("the client is not connected: use async with AIOQuotaAdminClient(...) as client")
        return self._connected


def _awaitable(futures: Futures) -> AIOFutures:
    return {name: asyncio.wrap_future(future) for name, future in futures.items()}
