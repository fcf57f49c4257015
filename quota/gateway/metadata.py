"""Requests that must not create the topics that they name: nobody would be charged.

For a Metadata request a broker creates them if `auto.create.topics.enable` is set. From version 4 on a request says
whether it may; before, each may. For a StreamsGroupHeartbeat (KIP-1071) it creates the internal topics of the
topology, again and again if they are deleted; only a topology without such topics is passed on.

The brokers come first in a response, and then the topics, which may take many megabytes. Of a large response only the
beginning is held.
"""

import struct
from collections.abc import Callable, Iterator

from quota.errors import ErrorCode
from quota.wire.described import same_in_each
from quota.wire.headers import RequestHeader, read_response_header, write_response
from quota.wire.message_codec import Message
from quota.wire.primitives import Malformed
from quota.wire.protocol import ApiKey, Protocol

FIRST_VERSION = 4
"""The first version that can ask for topics without creating them."""
_LAST = "controllerId"
"""The last field before the topics, from version 1 on."""
_MAX_HEAD_BYTES = 1024 * 1024
_COUNT = struct.Struct(">i")
_TOPIC_START = struct.Struct(">hh")  # the error, and the length of the name
_PARTITION_HEAD = 10  # the error, the index and the leader; then the replicas, and those in sync


def may_create(version: int, request: Message) -> bool:
    """Return whether a broker may create topics for a request.

    No names mean all topics or, from version 1 on, none; none are created for such a request.
    """
    return bool(request["topics"]) and (version < FIRST_VERSION or request["allowAutoTopicCreation"])


def refused_topology(request: Message) -> Message | None:
    """Return the response to a StreamsGroupHeartbeat with internal topics; None if it has none.

    Only a member that joins sends a topology.
    """
    internal = [
        topic["name"]
        for subtopology in (request["topology"] or {}).get("subtopologies", ())
        for topic in (*subtopology["repartitionSourceTopics"], *subtopology["stateChangelogTopics"])
    ]
    if not internal:
        return None
    message = (
        f"the brokers would create the internal topics of this application ({internal[0]}; {len(internal)} in all) "
        "without a decision of the mutation quota gateway; use group.protocol=classic, which creates them by requests"
    )
    return {"errorCode": int(ErrorCode.STREAMS_INVALID_TOPOLOGY), "errorMessage": message}


def in_version(protocol: Protocol, version: int, body: bytes) -> bytes:
    """Return a response of `FIRST_VERSION` in an earlier version. Partitions are not decoded, which would take long."""
    response, wanted = protocol.response(ApiKey.METADATA, FIRST_VERSION), protocol.response(ApiKey.METADATA, version)
    head, end = response.read_head(body, _LAST)
    if version:
        return wanted.write_head(head, _LAST) + body[end:]
    try:
        return wanted.write_head(head, "brokers") + b"".join(_without_internal(body, end))
    except struct.error:
        raise Malformed("a Metadata response ends early") from None


class LargeResponse:
    """A response in the version of the client, with other brokers; its topics are passed on as they arrive.

    The version may be lower than that of the request, except for version 0, whose topics are others.
    """

    def __init__(
        self,
        protocol: Protocol,
        client: RequestHeader,
        replace: Callable[[list[Message]], list[Message]],
        request: RequestHeader,
        length: int,
    ) -> None:
        """Take the headers of the client's request and of that to the broker, and the length of the response."""
        self._protocol = protocol
        self._client = client
        self._replace = replace
        self._request = request
        self._length = length
        self._arrived = b""
        self._has_head = False

    def feed(self, data: bytes) -> bytes:
        """Take the next bytes of the response, which begin with its length; return those for the client."""
        if self._has_head:
            return data
        self._arrived += data
        try:
            sent = self._with_head(self._arrived[_COUNT.size :])
        except Malformed:
            if len(self._arrived) < min(_MAX_HEAD_BYTES, _COUNT.size + self._length):
                return b""
            raise
        self._has_head, self._arrived = True, b""
        return sent

    def _with_head(self, frame: bytes) -> bytes:
        begin = read_response_header(frame, self._request, self._protocol)
        response, wanted = (
            self._protocol.response(ApiKey.METADATA, header.api_version) for header in (self._request, self._client)
        )
        last = _LAST if self._client.api_version else "brokers"
        head, end = response.read_head(frame, last, begin)
        body = wanted.write_head({**head, "brokers": self._replace(head["brokers"])}, last)
        sent = write_response(self._client, body, self._protocol)
        (length,) = _COUNT.unpack_from(sent)
        return _COUNT.pack(length + self._length - end) + sent[_COUNT.size :] + frame[end:]


def _without_internal(body: bytes, start: int) -> Iterator[bytes]:
    """Yield the topics, which begin at an offset, without the field that version 0 lacks: `isInternal`, a byte."""
    (topics,) = _COUNT.unpack_from(body, start)
    at = start + _COUNT.size
    for _ in range(topics):
        _, length = _TOPIC_START.unpack_from(body, at)
        at += _TOPIC_START.size + max(length, 0)
        yield body[start:at]
        start = at + 1
        (partitions,) = _COUNT.unpack_from(body, start)
        at = _after_partitions(body, start + _COUNT.size, partitions)
    yield body[start:]


def _after_partitions(body: bytes, at: int, count: int) -> int:
    """Return the offset after partitions. Nearly always they have as many replicas, all in sync, and so one size."""
    if count > 1:
        replicas = at + _PARTITION_HEAD
        in_sync = _after_nodes(body, replicas)
        size = _after_nodes(body, in_sync) - at
        lengths = (start + byte for start in (replicas, in_sync) for byte in range(_COUNT.size))
        if same_in_each(body, lengths, size, count):
            return at + size * count
    for _ in range(count):
        at = _after_nodes(body, _after_nodes(body, at + _PARTITION_HEAD))
    return at


def _after_nodes(body: bytes, at: int) -> int:
    nodes: int = _COUNT.unpack_from(body, at)[0]
    return at + _COUNT.size * (1 + max(nodes, 0))
