"""A mutation request as a client sends it: the one reader of them for the job, `simulate` and the client."""

import enum
from typing import Annotated

import msgspec

from quota import codec

ANONYMOUS = "ANONYMOUS"
"""The user of a request that names none (Kafka's `KafkaPrincipal.ANONYMOUS`)."""

NO_CLIENT_ID = "<none>"
"""The client-id of a request that names none, so that leaving it out does not slip past the default quotas."""

Int32 = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]


class Operation(enum.Enum):
    """The requests that KIP-599 limits."""

    CREATE_TOPICS = "CREATE_TOPICS"
    CREATE_PARTITIONS = "CREATE_PARTITIONS"
    DELETE_TOPICS = "DELETE_TOPICS"


class Mode(enum.Enum):
    """How a bucket in debt answers: by refusing, or by admitting and throttling."""

    STRICT = "STRICT"
    PERMISSIVE = "PERMISSIVE"


_STRICT_SINCE = {Operation.CREATE_TOPICS: 6, Operation.CREATE_PARTITIONS: 3, Operation.DELETE_TOPICS: 5}
"""The first API version whose clients know THROTTLING_QUOTA_EXCEEDED (KIP-599)."""


class TopicMutation(msgspec.Struct, frozen=True):
    """One topic of a request, and what it costs: partitions created, added, or deleted with it."""

    name: str
    partitions: Int32


class MutationRequest(msgspec.Struct, frozen=True):
    """A request as semantics define it; unknown fields are ignored."""

    request_id: str
    operation: Operation
    api_version: Int32
    topics: Annotated[list[TopicMutation], msgspec.Meta(min_length=1)]
    user: str = ANONYMOUS
    client_id: str = NO_CLIENT_ID
    validate_only: bool = False
    request_throttle_ms: Int32 = 0
    purgatory_ms: Int32 = 0

    @property
    def mode(self) -> Mode:
        """STRICT for clients that know the error code, PERMISSIVE for older ones."""
        return Mode.STRICT if self.api_version >= _STRICT_SINCE[self.operation] else Mode.PERMISSIVE


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
