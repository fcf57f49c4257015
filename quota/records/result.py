"""What became of an admitted mutation on its cluster: the records of `mutation-results`."""

import msgspec

from quota.records.record import Source
from quota.records.request import Operation


class TopicResult(msgspec.Struct, frozen=True):
    """What the cluster said of one topic; its error is Kafka's own."""

    name: str
    """Of the topic."""
    error_code: int = 0
    """0 where it was carried out."""
    error: str = "NONE"
    """The name of the error."""
    error_message: str | None = None
    """What Kafka says of it."""
    found_done: bool = False
    """It was so already when an applier came back to a decision that it may have carried out before."""


class MutationResult(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of the admitted topics of one decision."""

    decision_id: str
    request_id: str
    user: str
    client_id: str
    operation: Operation
    validate_only: bool
    topics: list[TopicResult]
    """In the decision's order."""
    timestamp: int
    """Of the request [epoch ms]."""
    source: Source
    """Where the decision stands."""
