"""The result of a mutation for whoever requested it (a record of `mutation-results`)."""

import msgspec

from quota.records.record import Int16, Int64, Source
from quota.records.request import Operation


class TopicResult(msgspec.Struct, frozen=True):
    """The answer for one topic, with Kafka's own error."""

    name: str
    """The name of the topic."""
    error_code: Int16 = 0
    """Kafka's error code; 0 if the mutation was carried out."""
    error: str = "NONE"
    """The name of the error."""
    error_message: str | None = None
    """Kafka's message, or why the quota rejected the topic."""
    found_done: bool = False
    """Whether an applier found the mutation done when it returned to a decision that it may have carried out."""


class MutationResult(msgspec.Struct, frozen=True, kw_only=True):
    """The results of the topics of one decision: those of the cluster, or that the quota rejected them."""

    decision_id: str
    request_id: str
    user: str
    client_id: str
    operation: Operation
    validate_only: bool
    topics: list[TopicResult]
    """The topics in the order of the decision."""
    timestamp: Int64
    """The timestamp of the request [epoch ms]."""
    source: Source
    """The position of the decision."""
