"""The records that a consumer skips because nobody can read them."""

import logging
import threading
from collections import Counter
from typing import ClassVar

from confluent_kafka import Message

from quota.errors import BadRecord
from quota.kafka.reading import message_source
from quota.kafka.timing import Every

_log = logging.getLogger(__name__)

_LOG_SECONDS = 10.0


class Skipped:
    """The skipped records of one consumer, in the log: at once, and then at most every ten seconds."""

    counts: ClassVar[Counter[str]] = Counter()
    """The records that all consumers of this program have skipped, by topic."""
    _lock: ClassVar[threading.Lock] = threading.Lock()

    def __init__(self, expected: str) -> None:
        """Start without records; `expected` is what they should be, such as `a decision`."""
        self._expected = expected
        self._log_now = Every(_LOG_SECONDS)
        self._unlogged = 0

    def add(self, message: Message, error: BadRecord) -> None:
        """Count a record that is not what it should be."""
        source = message_source(message)
        with self._lock:
            self.counts[source.topic] += 1
        if self._log_now.is_due():
            more = f" (and {self._unlogged:,} before it)" if self._unlogged else ""
            _log.warning("skipped %s%s, which is not %s: %s", source, more, self._expected, error)
            self._unlogged = 0
        else:
            self._unlogged += 1
