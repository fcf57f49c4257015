"""A mutation request as a client sends it: the one reader of them for the job, `simulate` and the client."""

import enum
from typing import Annotated

import msgspec

from quota.records import codec
from quota.records.fields import EpochMs

ANONYMOUS = "ANONYMOUS"
"""The user of a request that names none (Kafka's `KafkaPrincipal.ANONYMOUS`)."""

NO_CLIENT_ID = "<none>"
"""The client-id of a request that names none, so that leaving it out does not slip past the default quotas."""

Int16 = Annotated[int, msgspec.Meta(ge=-(2**15), le=2**15 - 1)]
Int32 = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]


class Operation(enum.Enum):
    """The requests that KIP-599 limits."""

    CREATE_TOPICS = "CREATE_TOPICS"
    CREATE_PARTITIONS = "CREATE_PARTITIONS"
    DELETE_TOPICS = "DELETE_TOPICS"

    __hash__ = object.__hash__  # there is one of each, and Enum's own takes longer than to look it up


class Mode(enum.Enum):
    """How a bucket in debt answers: by refusing, or by admitting and throttling."""

    STRICT = "STRICT"
    PERMISSIVE = "PERMISSIVE"


STRICT_SINCE = {Operation.CREATE_TOPICS: 6, Operation.CREATE_PARTITIONS: 3, Operation.DELETE_TOPICS: 5}
"""The first API version whose clients know THROTTLING_QUOTA_EXCEEDED (KIP-599)."""


class TopicDetails(msgspec.Struct, frozen=True, kw_only=True):
    """What carrying a topic's mutation out needs besides its name and cost, as in Kafka's protocol.

    Nothing of it bears on the decision. What a request leaves out is left out of its decision as well.
    """

    count: Int32 | msgspec.UnsetType = msgspec.UNSET
    """CREATE_PARTITIONS: how many partitions the topic is to have in the end."""
    replication_factor: Int16 | msgspec.UnsetType = msgspec.UNSET
    """CREATE_TOPICS; -1 or left out: the cluster's default."""
    assignments: list[list[Int32]] | msgspec.UnsetType = msgspec.UNSET
    """The brokers of each new partition's replicas."""
    configs: dict[str, str] | msgspec.UnsetType = msgspec.UNSET
    """CREATE_TOPICS: the topic's configs."""


class TopicMutation(TopicDetails, frozen=True):
    """One topic of a request, and what it costs: partitions created, added, or deleted with it."""

    name: str
    """Of the topic."""
    partitions: Int32
    """The partitions created, added, or deleted with it."""


class MutationRequest(msgspec.Struct, frozen=True):
    """A request for mutations of topics; unknown fields are ignored."""

    request_id: str
    """The sender's own name for it, which comes back in the decision."""
    operation: Operation
    """What is asked for."""
    api_version: Int32
    """Of the client's request in Kafka's protocol: old versions do not know the error, and are only told to wait."""
    topics: Annotated[list[TopicMutation], msgspec.Meta(min_length=1)]
    """Each is charged and answered on its own, in this order."""
    user: str = ANONYMOUS
    """The principal."""
    client_id: str = NO_CLIENT_ID
    """The client-id."""
    validate_only: bool = False
    """Whether it only asks if it could be done: never charged, never refused."""
    request_throttle_ms: Int32 = 0
    """The throttle time of the request quota, which the client is told where it is the longer one, in ms."""
    purgatory_ms: Int32 = 0
    """How long the broker has kept the request back, in ms; it is taken off the throttle time."""
    apply: bool = True
    """Whether an applier is to carry it out; false where the sender does so itself."""
    expires_at: EpochMs | msgspec.UnsetType = msgspec.UNSET
    """Epoch ms from which on it must not be carried out any more: nobody waits for it then."""

    @property
    def mode(self) -> Mode:
        """STRICT for clients that know the error code, PERMISSIVE for older ones."""
        return Mode.STRICT if self.api_version >= STRICT_SINCE[self.operation] else Mode.PERMISSIVE


_decoder = msgspec.json.Decoder(MutationRequest)


def read_request(value: bytes | None) -> MutationRequest:
    """Read a request from the bytes of its record.

    Raises:
        BadRecord: with a sentence that names the field and the value.
    """
    request = codec.decode(value, _decoder)
    if request.user and request.client_id:
        return request
    return msgspec.structs.replace(request, user=request.user or ANONYMOUS, client_id=request.client_id or NO_CLIENT_ID)
