"""The requests that KIP-599 limits."""

from quota.records.request import Operation
from quota.wire.api_keys import ApiKey

OPERATIONS = {
    ApiKey.CREATE_TOPICS: Operation.CREATE_TOPICS,
    ApiKey.CREATE_PARTITIONS: Operation.CREATE_PARTITIONS,
    ApiKey.DELETE_TOPICS: Operation.DELETE_TOPICS,
}
"""The operation of each of these APIs."""
