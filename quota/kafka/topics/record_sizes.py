"""The largest records that the topics of a deployment take."""

from quota.settings import Settings

GROWTH = 6
"""The bytes that a byte of a request may become in its answer, which has `ENVELOPE` bytes more.

JSON writes a control character in six bytes; a topic that is refused grows fivefold.
"""

ENVELOPE = 8192

MAX_QUOTA_BYTES = 8 * 1024 * 1024
"""The largest record of the quota topic: the metadata of a cluster with some hundred thousand partitions."""

_BROKER_DEFAULT_BYTES = 1_048_588


def max_record_bytes(settings: Settings) -> int:
    """Return the largest record of a request topic; one over the limit becomes a dead letter."""
    return max(settings.limits.max_request_bytes + ENVELOPE, _BROKER_DEFAULT_BYTES)


def max_answer_bytes(settings: Settings) -> int:
    """Return the largest decision or dead letter."""
    return GROWTH * settings.limits.max_request_bytes + ENVELOPE
