"""The headers of requests and responses, and their frames: a length of 4 bytes, a header and a body.

A request's header is v1 or, where its version is flexible, v2 with tagged fields. These are skipped when reading, and
never written: no release of Kafka defines any.

A gateway is recognized by a tagged field in its ApiVersions responses, which other clients ignore. Clients may send
ApiVersions before they log in, so it needs no rights.
"""

import struct
from typing import NamedTuple

from quota.wire.primitives import MAX_STRING, Malformed, read_string_length, read_uvarint
from quota.wire.protocol import ApiKey, Protocol

MAX_HEADER = 0x10000
"""The maximum size of a header [bytes], of which the client-id takes at most half: no longer prefix of a frame is
needed to read it."""

MARKED_SINCE = 3
"""The first version of ApiVersions with tagged fields."""

TAG = 10_599
"""The tag of the field; Kafka's own begin at 0."""

MARK = b"mutation-quota gateway"
"""The field's bytes."""

_MAX_TAGS = 64

_PRODUCE_TRANSACTIONAL_SINCE, _PRODUCE_FLEXIBLE_SINCE = 3, 9

_REPLACEMENT = "\ufffd".encode()

_START = struct.Struct(">hhih")  # up to the client id's length
_SHORT = struct.Struct(">h")
_INT = struct.Struct(">i")
_MARKED_HEAD = struct.Struct(">hhihB")  # key, version, correlation id, no client-id, no tagged fields


class RequestHeader(NamedTuple):
    """A request's header, and where its body begins in the frame."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    body: int = 0


def read_request_header(frame: bytes, protocol: Protocol) -> RequestHeader | None:
    """Return the header of a frame without its length, or None if the bytes end within the header.

    The bytes may be the beginning of a frame. The version may be unknown: the header's form follows from the first
    flexible version.
    """
    if len(frame) < _START.size:
        return None
    key, version, correlation_id, length = _START.unpack_from(frame)
    api = protocol.apis.get(key)
    if api is None:
        raise Malformed(f"API key {key} is unknown to Kafka {protocol.version}")
    at = _START.size
    client_id = None
    if length >= 0:  # below 0 is null
        if len(frame) < at + length:
            return None
        client_id = _client_id(frame[at : at + length])
        at += length
    if api.flexible_since is not None and version >= api.flexible_since:
        after = _after_tags(frame, at)
        if after is None:
            return None
        at = after
    return RequestHeader(key, version, correlation_id, client_id, at)


def read_response_header(frame: bytes, request: RequestHeader, protocol: Protocol) -> int:
    """Return where the body begins in a response frame without its length, of which at least the header is there."""
    after = _after_tags(frame, _INT.size) if _flexible_response(request, protocol) else _INT.size
    if after is None or after > len(frame):
        raise Malformed("a response is truncated within its header")
    return after


def write_request(header: RequestHeader, body: bytes, protocol: Protocol) -> bytes:
    """Return the frame of a request with its length; `header.body` is ignored."""
    client_id = b"" if header.client_id is None else header.client_id.encode()
    length = -1 if header.client_id is None else len(client_id)
    tags = b"\0" if protocol.request(header.api_key, header.api_version).flexible else b""
    start = _START.pack(header.api_key, header.api_version, header.correlation_id, length)
    return _framed(start + client_id + tags, body)


def write_response(request: RequestHeader, body: bytes, protocol: Protocol) -> bytes:
    """Return the frame of the response to a request, with its length and the request's correlation id."""
    tags = b"\0" if _flexible_response(request, protocol) else b""
    return _framed(_INT.pack(request.correlation_id) + tags, body)


def acks_of_produce(frame: bytes, header: RequestHeader) -> int | None:
    """Return the acks of a Produce request (0, 1, or -1 for all), or None if the bytes end before that field.

    A request with acks=0 has no response. The bytes may be the beginning of a frame.
    """
    at = header.body
    try:
        if header.api_version >= _PRODUCE_FLEXIBLE_SINCE:
            length, at = read_string_length(frame, at)
            at += max(0, length - 1)
        elif header.api_version >= _PRODUCE_TRANSACTIONAL_SINCE:
            (length,) = _SHORT.unpack_from(frame, at)
            at += 2 + max(0, length)
        (acks,) = _SHORT.unpack_from(frame, at)
    except (IndexError, struct.error):
        return None
    return int(acks)


def _flexible_response(request: RequestHeader, protocol: Protocol) -> bool:
    # ApiVersions is answered with header v0 in all versions: the client does not know yet what the broker knows.
    return request.api_key != ApiKey.API_VERSIONS and protocol.response(request.api_key, request.api_version).flexible


def _client_id(value: bytes) -> str:
    """Return a client id; bytes that are not UTF-8 are replaced, as by brokers."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.decode(errors="replace")[: MAX_STRING // len(_REPLACEMENT)]


def _after_tags(frame: bytes, at: int) -> int | None:
    """Return the offset after the tagged fields of a header, or None if the bytes end within them."""
    try:
        count, at = read_uvarint(frame, at)
        if count > _MAX_TAGS:
            raise Malformed(f"a header claims {count} tagged fields; {_MAX_TAGS} is the maximum")
        for _ in range(count):
            _, at = read_uvarint(frame, at)
            size, at = read_uvarint(frame, at)
            at += size
            if at > MAX_HEADER:
                raise Malformed(f"a header claims {at} bytes; {MAX_HEADER} is the maximum")
    except IndexError:
        return None
    return at if at <= len(frame) else None


def _framed(header: bytes, body: bytes) -> bytes:
    return _INT.pack(len(header) + len(body)) + header + body


def marked_request() -> bytes:
    """Return an ApiVersions request, as it is sent; a response that contains `MARK` is a gateway's."""
    names = b"".join(bytes([len(text) + 1]) + text for text in (b"mutation-quota", b"0"))
    return _framed(_MARKED_HEAD.pack(ApiKey.API_VERSIONS, MARKED_SINCE, 0, -1, 0), names + b"\0")
