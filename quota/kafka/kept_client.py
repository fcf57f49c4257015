"""A client of librdkafka that a program keeps for as long as it runs."""

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

from confluent_kafka import KafkaError, KafkaException

from quota.errors import MutationQuotaError

_log = logging.getLogger(__name__)

C = TypeVar("C")

_LOST_SECONDS = 10.0

TRANSPORT_ERRORS = frozenset({KafkaError._TRANSPORT, KafkaError._TIMED_OUT, KafkaError._ALL_BROKERS_DOWN})  # noqa: SLF001
"""librdkafka's errors for any trouble with all brokers; they do not name the cause."""
UNDELIVERED = TRANSPORT_ERRORS | {KafkaError._MSG_TIMED_OUT}  # noqa: SLF001
"""librdkafka's errors for a record that is valid but could not be delivered."""
_NO_RESPONSE = UNDELIVERED | {KafkaError._UNKNOWN_PARTITION, KafkaError._NOENT}  # noqa: SLF001
"""These, and those for a partition that has no leader in the metadata that the client has."""


class KeptClient(Generic[C]):
    """A client that is replaced if it fails and has had no response for ten seconds. Thread-safe.

    Since version 2.10 of librdkafka, a client may never connect again after it received metadata without brokers, which
    the last broker of a cluster sends while it stops (https://github.com/confluentinc/librdkafka/issues/5301). Such a
    client cannot be told from one whose cluster does not respond. One that was not used for ten seconds may be replaced
    at its first failure, which costs a connection.
    """

    def __init__(self, make: Callable[[], C]) -> None:
        """Make the client; `make` is called again to replace it."""
        self._make = make
        self.client = make()
        self._responded_at = time.monotonic()
        self._lock = threading.Lock()

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

        The caller must still hold the client: calls in progress fail when the last reference to it goes.
        """
        if error is None or error.code() not in _NO_RESPONSE:
            self._responded_at = time.monotonic()
            return
        with self._lock:
            if client is not self.client or time.monotonic() - self._responded_at < _LOST_SECONDS:
                return
            try:
                self.client = self._make()
            except (KafkaException, MutationQuotaError) as problem:  # such as a certificate that is being replaced
                _log.debug("cannot replace a client: %s", problem)
            self._responded_at = time.monotonic()
