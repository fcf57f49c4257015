"""What became of an admitted mutation on its cluster: the records of `mutation-results`."""

import msgspec

from quota.record import Source
from quota.request import Operation


class TopicResult(msgspec.Struct, frozen=True):
    """What the cluster said of one topic.

    `error_code`, `error` and `error_message` are Kafka's own (0 and NONE where it was carried out). `found_done`
    says that it was so already when an applier came back to a decision that it may have carried out before.
    """

    name: str
    error_code: int = 0
    error: str = "NONE"
    error_message: str | None = None
    found_done: bool = False


class MutationResult(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of the admitted topics of one decision, in their order.

    `timestamp` is the request's (epoch ms), `source` is where the decision stands.
    """

    decision_id: str
    request_id: str
    user: str
    client_id: str
    operation: Operation
    validate_only: bool
    topics: list[TopicResult]
    timestamp: int
    source: Source
