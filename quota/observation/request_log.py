"""A line of a broker's request log (`kafka.request.logger` at DEBUG, KIP-673), as a mutation.

[2026-11-22 17:39:55,315] DEBUG Completed request:{"isForwarded":false,"requestHeader":{…},"request":{…},
"response":{…},"connection":"…","totalTimeMs":50.183,…,"principal":"User:alice",…} (kafka.request.logger)
"""

import re
from collections.abc import Iterator
from typing import Annotated

import msgspec

from quota.errors import BadRecord
from quota.observation.layouts import MARK, SEVERAL, CutOff, LogTime, unwrap
from quota.records.request import OPERATIONS, Operation

PATTERN = "[%d] %p %m (%c)%n"
"""The layout of log4j2 that Kafka sets, of which the date, the time and the message are needed."""

_NAMES = re.compile(rb'TE_(?:TOPICS|PARTITIONS)\\*(?:"|u0022)')
"""The ends of the names of the three APIs, maybe in a string: twice as fast to look for as the names."""
_LEFT_OUT = re.compile(rb'"MESSAGE"\s*:\s*null')
_NAMES_IN_JSON = re.compile(_NAMES.pattern + b"|" + _LEFT_OUT.pattern)

_RESULT = re.compile(rb'\\*"name\\*":(?:\\*"[^"\\]*\\*"|null),(?:\\*"topicId\\*":\\*"[^"\\]*\\*",)?\\*"errorCode\\*":')
"""The beginning of a topic's result in the responses of the three APIs, and of no other, maybe in a string."""

_SAMPLE_BYTES = 160
NO_RESPONSE = -1
"""The error code of a topic without a response, for example because the connection was lost (UNKNOWN_SERVER_ERROR)."""

_NO_ID = "AAAAAAAAAAAAAAAAAAAAAA"
"""The id of a topic that is given by its name."""


class LoggedTopic(msgspec.Struct, frozen=True, array_like=True):
    """A topic of a request, and its result in the response."""

    name: str | None
    """None if the topic was given by id, and the response does not have its name."""
    topic_id: str | None
    count: int
    """CREATE_TOPICS: the requested partitions, or -1 for the default; CREATE_PARTITIONS: the requested total."""
    assigned: int
    """The number of partitions with assigned brokers; 0 where the cluster assigns them."""
    error_code: int
    partitions: int
    """CREATE_TOPICS: the partitions of the topic in the response; -1 if it has none."""


class LoggedRequest(msgspec.Struct, frozen=True, array_like=True):
    """A request that changes topics, as one node of the cluster has logged it."""

    operation: Operation
    api_version: int
    correlation_id: int
    client_id: str | None
    principal: str
    """Such as `User:alice`."""
    connection: str
    forwarded: bool
    """Whether a broker has forwarded it to the controller, which has logged it."""
    validate_only: bool
    throttle_time_ms: int
    topics: list[LoggedTopic]
    received_at: int
    """When the node received it [epoch ms]."""
    completed_at: int
    """When the node responded [epoch ms], which is the time of the line."""


class _Header(msgspec.Struct, rename="camel"):
    request_api_key: int
    request_api_version: int
    correlation_id: int
    client_id: str | None = None


class _RequestedTopic(msgspec.Struct, rename="camel"):
    name: str | None = None
    topic_id: str | None = None
    num_partitions: int = -1
    count: int = -1
    assignments: list[msgspec.Raw] | None = None


class _Request(msgspec.Struct, rename="camel"):
    topics: list[_RequestedTopic] = []
    topic_names: list[str] = []
    validate_only: bool = False


class _TopicResponse(msgspec.Struct, rename="camel"):
    name: str | None = None
    topic_id: str | None = None
    error_code: int = 0
    num_partitions: int = -1


_MISSING = _TopicResponse(error_code=NO_RESPONSE)


class _Response(msgspec.Struct, rename="camel"):
    throttle_time_ms: int = 0
    topics: list[_TopicResponse] = []
    results: list[_TopicResponse] = []
    responses: list[_TopicResponse] = []


class _Line(msgspec.Struct, rename="camel"):
    request_header: _Header
    request: _Request
    response: _Response | None
    connection: str
    total_time_ms: Annotated[float, msgspec.Meta(ge=0, le=2**31 - 1)]
    principal: str
    is_forwarded: bool = False


class _Head(msgspec.Struct, rename="camel"):
    request_header: _Header


_decode = msgspec.json.Decoder(_Line).decode
_decode_head = msgspec.json.Decoder(_Head).decode


def mutation_lines(block: bytes) -> Iterator[tuple[int, int]]:
    """Yield the start and the end of each line of a block that may contain a mutation.

    All others, which are nearly all lines of a busy broker, are skipped.
    """
    end = 0
    names = _NAMES_IN_JSON if block.startswith(b"{") else _NAMES
    for name in names.finditer(block):
        if name.start() < end:
            continue
        begin = block.rfind(b"\n", 0, name.start()) + 1
        end = block.find(b"\n", name.end())
        end = len(block) if end < 0 else end
        yield begin, end


def has_results(line: bytes) -> bool:
    """Return whether a line, or the rest of one, has the results of a mutation."""
    return _RESULT.search(line) is not None


def read_line(line: bytes, time: LogTime) -> LoggedRequest | None:
    """Parse a line of a log whose times are read by `time`; return None if it is not about a mutation."""
    try:
        return _read_line(line, time)
    except BadRecord as error:
        sample = line.decode(errors="replace")[:_SAMPLE_BYTES]
        raise type(error)(f"{error}, in the line {sample!r}") from None


def _read_line(line: bytes, time: LogTime) -> LoggedRequest | None:
    head, fields, message = unwrap(line)
    if not message:
        if _LEFT_OUT.search(line):
            raise CutOff("journalctl has left out a message of more than 4,096 bytes: export the log with --all")
        if b"requestApiKeyName" not in line:
            return None
        raise BadRecord(f"a line of another layout: expected the message to begin with {MARK.decode()}")
    try:
        decoded = _decode(message[: message.rfind(b"}") + 1])
    except msgspec.ValidationError as error:
        if not _is_mutation(message):
            return None  # another request, which only names one of these
        raise BadRecord(f"a request log of another version: {error}") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        if "trailing" in str(error) and MARK in message:
            raise BadRecord(SEVERAL) from None
        kind = CutOff if "truncated" in str(error) else BadRecord
        raise kind(f"a truncated line, or not JSON: {error}") from None
    operation = OPERATIONS.get(decoded.request_header.request_api_key)
    if operation is None:
        return None
    at = time.read(head) or time.read(fields)
    if at is None:
        raise BadRecord(f"a line of another layout: expected a date and a time before the message, as of {PATTERN}")
    return _logged(decoded, operation, *at)


def _is_mutation(message: bytes) -> bool:
    try:
        header = _decode_head(message[: message.rfind(b"}") + 1]).request_header
    except msgspec.MsgspecError:
        return True
    return header.request_api_key in OPERATIONS


def _logged(line: _Line, operation: Operation, at: int, resolution: int) -> LoggedRequest:
    header, request = line.request_header, line.request
    took = round(line.total_time_ms)
    received_at = at - took // resolution * resolution  # in whole seconds, the order of the log is that of the requests
    response = line.response or _Response()
    responses = [*response.topics, *response.results, *response.responses]
    requested = request.topics or [_RequestedTopic(name) for name in request.topic_names]
    return LoggedRequest(
        operation,
        header.request_api_version,
        header.correlation_id,
        header.client_id,
        line.principal,
        line.connection,
        line.is_forwarded,
        request.validate_only,
        response.throttle_time_ms,
        list(_topics(requested, responses)),
        received_at,
        received_at + took,
    )


def _topics(requested: list[_RequestedTopic], responses: list[_TopicResponse]) -> Iterator[LoggedTopic]:
    """Yield the topics in the order of the request, which the response may not keep."""
    by_key = {key: response for response in responses for key in (response.name, _id(response.topic_id)) if key}
    for topic in requested:
        topic_id = _id(topic.topic_id)
        response = by_key.get(topic.name or topic_id or "", _MISSING)
        yield LoggedTopic(
            topic.name or response.name,
            topic_id or _id(response.topic_id),
            max(topic.num_partitions, topic.count),
            len(topic.assignments or ()),
            response.error_code,
            response.num_partitions,
        )


def _id(topic_id: str | None) -> str | None:
    return None if topic_id == _NO_ID else topic_id
