"""The errors of this project; the message of each is one line that says what to do."""

import enum
from collections.abc import Callable, Iterator
from contextlib import contextmanager

NO_SPACE = "No space left on device"
"""In errors of a full disk."""

FREE_SPACE = "; free some space there"
"""The end of the message about a table that needs more space."""


class MutationQuotaError(Exception):
    """The base of all errors; the command line prints the message and exits with `exit_code`."""

    exit_code = 1
    query: str | None = None
    """The name of the streaming query that failed; None if the error is not a query's."""
    batch: int | None = None
    """The number of the batch that failed; None if it is not known."""


class BadInput(MutationQuotaError):
    """An unusable argument, setting or file."""

    exit_code = 2


class NotFound(MutationQuotaError):
    """An object that a command names does not exist."""

    exit_code = 4


class BadRecord(MutationQuotaError):
    """A record that breaks its contract.

    The message names the field and the value. A request that raises it becomes a dead letter.
    """


class ClusterError(MutationQuotaError):
    """A Kafka cluster that cannot be reached, or is not set up as the jobs need it."""


class StoreError(MutationQuotaError):
    """A file or table of a storage root cannot be read or written."""


class Interrupted(MutationQuotaError):
    """Ctrl-C or SIGTERM during a write; the message says what may be written."""

    exit_code = 130


@contextmanager
def interrupts_saying(message: Callable[[], str]) -> Iterator[None]:
    """Turn an interrupt inside the block into an error with a message, which is made when it happens."""
    try:
        yield
    except KeyboardInterrupt:
        raise Interrupted(f"interrupted: {message()}") from None


class ErrorCode(enum.IntEnum):
    """Error codes of Kafka's protocol that our programs read or return. A topic of a decision has 0, 44 or 89."""

    NONE = 0
    UNKNOWN_TOPIC_OR_PARTITION = 3
    NOT_LEADER_OR_FOLLOWER = 6
    REQUEST_TIMED_OUT = 7
    COORDINATOR_NOT_AVAILABLE = 15
    TOPIC_AUTHORIZATION_FAILED = 29
    CLUSTER_AUTHORIZATION_FAILED = 31
    UNSUPPORTED_SASL_MECHANISM = 33
    UNSUPPORTED_VERSION = 35
    INVALID_PARTITIONS = 37
    INVALID_REQUEST = 42
    POLICY_VIOLATION = 44
    SASL_AUTHENTICATION_FAILED = 58
    TOPIC_DELETION_DISABLED = 73
    THROTTLING_QUOTA_EXCEEDED = 89
    UNKNOWN_TOPIC_ID = 100
    STREAMS_INVALID_TOPOLOGY = 130
