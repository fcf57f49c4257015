"""The maximum record sizes of a deployment's topics."""

from quota.settings import Settings

GROWTH = 6
"""The maximum growth from a request to its answer: each byte becomes at most this many, plus `ENVELOPE` bytes in all.

JSON writes a control character in six bytes; a topic that is refused grows fivefold.
"""

ENVELOPE = 8192

MAX_QUOTA_BYTES = 8 * 1024 * 1024
"""The largest record of the quota topic: the metadata of a cluster with some hundred thousand partitions."""

_BROKER_DEFAULT_BYTES = 1_048_588


def max_record_bytes(settings: Settings) -> int:
    """Return the maximum record size of a request topic [bytes].

    It is above the limit, so that a request that is too large becomes a dead letter.
    """
    return max(settings.limits.max_request_bytes + ENVELOPE, _BROKER_DEFAULT_BYTES)


def max_answer_bytes(settings: Settings) -> int:
    """Return the maximum size of a decision or dead letter [bytes]."""
    return GROWTH * settings.limits.max_request_bytes + ENVELOPE
