"""A mutation request as a client sends it, and its reader."""

import enum
from typing import Annotated, Self

import msgspec

from quota.records import codec
from quota.records.record import EpochMs, Int16, Int32, Name

ANONYMOUS = "ANONYMOUS"
"""The user of a request without a user (Kafka's `KafkaPrincipal.ANONYMOUS`)."""

NO_CLIENT_ID = "<none>"
"""The client-id of a request without one, so that omitting it does not evade the default quotas."""


class Operation(enum.Enum):
    """The requests that KIP-599 limits."""

    CREATE_TOPICS = "CREATE_TOPICS"
    CREATE_PARTITIONS = "CREATE_PARTITIONS"
    DELETE_TOPICS = "DELETE_TOPICS"

    __hash__ = object.__hash__  # members are singletons, and Enum's own hash takes longer than the look-up


class Mode(enum.Enum):
    """How a bucket in debt answers: it rejects (strict), or it admits and throttles (permissive)."""

    STRICT = "STRICT"
    PERMISSIVE = "PERMISSIVE"


OPERATIONS = {19: Operation.CREATE_TOPICS, 20: Operation.DELETE_TOPICS, 37: Operation.CREATE_PARTITIONS}
"""The operations by the keys of their APIs in Kafka's protocol."""

STRICT_SINCE = {Operation.CREATE_TOPICS: 6, Operation.CREATE_PARTITIONS: 3, Operation.DELETE_TOPICS: 5}
"""The first API version whose clients know THROTTLING_QUOTA_EXCEEDED (KIP-599)."""


class TopicDetails(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The fields that carrying out a topic's mutation needs besides its name and cost, as in Kafka's protocol.

    None of them influences the decision. A field that is absent from a request is absent from its decision, too.
    """

    count: Int32 | None = None
    """CREATE_PARTITIONS: total number of partitions afterwards; null if not given"""
    replication_factor: Int16 | None = None
    """CREATE_TOPICS: replication factor; null or -1 for the cluster's default"""
    assignments: list[list[Int32]] | None = None
    """brokers of each new partition; null if not given"""
    configs: dict[str, str] | None = None
    """CREATE_TOPICS: configs of the topic; null if not given"""


class TopicMutation(TopicDetails, frozen=True):
    """One topic of a request and its cost."""

    name: str
    """The name of the topic."""
    partitions: Int32
    """The cost: the partitions created, added, or deleted with the topic."""


class Observed(msgspec.Struct, frozen=True):
    """The answer of a cluster to a request that it processed without a decision, from a broker's request log."""

    at: EpochMs
    """time at which the broker received the request, as of which it is decided [epoch ms]"""
    error_codes: list[Int16]
    """the cluster's error code for each topic, in the request's order: 0 or 89 (THROTTLING_QUOTA_EXCEEDED)"""
    throttle_time_ms: Int32 = 0
    """throttle time that the cluster returned to the client [ms]"""
    took_ms: Int32 = 0
    """time that the cluster took to answer [ms]"""
    assumed: list[Int32] = []
    """indexes of topics whose cost is not in the log; their `partitions` is an assumption"""


class MutationRequest(msgspec.Struct, frozen=True):
    """A request for topic mutations; unknown fields are ignored; an optional field that is null counts as absent."""

    request_id: Name
    """The sender's own id of the request, which the decision contains, too."""
    operation: Operation
    """The kind of mutation."""
    api_version: Int32
    """The version of the client's request in Kafka's protocol; old versions are permissive: never rejected."""
    topics: Annotated[list[TopicMutation], msgspec.Meta(min_length=1)]
    """The topics, each of which is charged and answered on its own, in this order."""
    user: str = ANONYMOUS
    """The principal."""
    client_id: str = NO_CLIENT_ID
    """The client-id."""
    validate_only: bool = False
    """Whether the mutation is only validated: it is never charged and never rejected."""
    request_throttle_ms: Int32 = 0
    """The throttle time of the request quota [ms]; the client gets the longer one of the two."""
    purgatory_ms: Int32 = 0
    """The time for which the broker held the request back [ms]; it is subtracted from the throttle time."""
    apply: bool = True
    """Whether an applier carries the mutation out; false if the sender does."""
    expires_at: EpochMs | None = None
    """The time from which the mutation must not be carried out [epoch ms], since its sender no longer waits."""

    observed: Observed | None = None
    """The cluster's answer, if the mutation is carried out already: the request is decided in shadow, and never
    applied."""
    withdraws: bool = False
    """Whether the record withdraws the same request, which is before it in its partition, because nobody acts on the
    decision: what it was charged is given back. Such a record also has `validate_only`, and is never applied."""
    unrecorded: Int32 = 0
    """The topics that a gateway has rejected without a request since this client's last one, because it knew their
    debt."""

    @property
    def mode(self) -> Mode:
        """STRICT for clients that know the error code, PERMISSIVE for older ones."""
        return Mode.STRICT if self.api_version >= STRICT_SINCE[self.operation] else Mode.PERMISSIVE

    @property
    def withdrawal(self) -> Self:
        """The record that withdraws this request. An older program only validates it, which costs nothing."""
        return msgspec.structs.replace(self, validate_only=True, apply=False, withdraws=True, unrecorded=0)


_decoder = msgspec.json.Decoder(MutationRequest)


def read_request(value: bytes | None) -> MutationRequest:
    """Parse a request; an empty user or client-id counts as absent, and `apply` where nothing is to be applied."""
    return _completed(codec.decode(value, _decoder))


def read_valid(value: bytes | None) -> MutationRequest:
    """Parse a request that `read_request` has parsed before, without checking its text and its depth again."""
    try:
        return _completed(_decoder.decode(value or b""))
    except msgspec.DecodeError:  # a field is null that counts as absent
        return read_request(value)


def _completed(request: MutationRequest) -> MutationRequest:
    is_applied = request.apply and request.observed is None and not request.withdraws
    if request.user and request.client_id and request.apply == is_applied:
        return request
    return msgspec.structs.replace(
        request,
        user=request.user or ANONYMOUS,
        client_id=request.client_id or NO_CLIENT_ID,
        apply=is_applied,
    )
