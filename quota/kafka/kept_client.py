"""A client of librdkafka that a program keeps for as long as it runs."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

from confluent_kafka import KafkaError, KafkaException

C = TypeVar("C")

_LOST_SECONDS = 10.0

_NO_RESPONSE = frozenset(
    {
        KafkaError._TRANSPORT,  # noqa: SLF001
        KafkaError._TIMED_OUT,  # noqa: SLF001
        KafkaError._ALL_BROKERS_DOWN,  # noqa: SLF001
        KafkaError._MSG_TIMED_OUT,  # noqa: SLF001
        KafkaError._UNKNOWN_PARTITION,  # noqa: SLF001
    }
)
"""librdkafka's own errors for calls and records without a response. The last one is that of a partition that has no
leader in the metadata that the client has."""


class KeptClient(Generic[C]):
    """A client that is replaced if it fails and has had no response for ten seconds.

    Since version 2.10 of librdkafka, a client may never connect again after it received metadata without brokers, which
    the last broker of a cluster sends while it stops (https://github.com/confluentinc/librdkafka/issues/5301). Such a
    client cannot be told from one whose cluster does not respond.
    """

    def __init__(self, make: Callable[[], C]) -> None:
        """Make the client; `make` is called again to replace it."""
        self._make = make
        self.client = make()
        self._responded_at = time.monotonic()

    @contextmanager
    def use(self) -> Iterator[C]:
        """Yield the client for calls inside the block, whose KafkaExceptions are noted."""
        client = self.client
        try:
            yield client
        except KafkaException as error:
            self.note(client, error.args[0])
            raise
        self.note(client, None)

    def note(self, client: C, error: KafkaError | None) -> None:
        """Note the error of a call or a record, or None for success, and replace the client if it may be lost.

        The caller holds the client that it has used until then, because its calls fail when nobody does.
        """
        if error is None or error.code() not in _NO_RESPONSE:
            self._responded_at = time.monotonic()
        elif client is self.client and time.monotonic() - self._responded_at >= _LOST_SECONDS:
            self.client = self._make()
            self._responded_at = time.monotonic()
