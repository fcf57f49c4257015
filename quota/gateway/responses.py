"""The responses that a channel changes for its client, and those to requests above the limits.

Brokers' responses get the gateway's addresses, and the version of the client's request.
"""

import struct
from collections.abc import Callable

from quota.errors import ErrorCode
from quota.gateway.addresses import ENDPOINTS, LargeLeadersResponse
from quota.gateway.context import GatewayContext
from quota.gateway.metadata import LargeResponse, in_version
from quota.gateway.operations import RESULTS
from quota.gateway.pipeline import Pipeline
from quota.wire.headers import RequestHeader
from quota.wire.message_codec import MAX_ELEMENTS, Message
from quota.wire.primitives import Malformed
from quota.wire.protocol import ApiKey, Protocol
from quota.wire.walk import Walk

_ERROR_CODE = struct.Struct(">h")
_CORRELATION_ID_BYTES = 4
MAX_REQUEST_BYTES = 8 * 1024 * 1024
"""The maximum size of a request that is read whole."""

_RESULTS = {ApiKey.METADATA: "topics", ApiKey.ALTER_CLIENT_QUOTAS: "entries", **RESULTS}
_IDENTITY = frozenset({"name", "topicId", "entity"})


class ResponseRewriter:
    """Changes the responses to one client; each method takes the next response, as a `Handler` of the pipeline."""

    def __init__(self, context: GatewayContext, pipeline: Pipeline) -> None:
        self._context = context
        self._pipeline = pipeline
        self._watched_port: int | None = None
        self.has_named = False
        """Whether a broker with the watched port was named."""

    def watch(self, port: int) -> None:
        """Watch for a broker whose address at the gateway has this port."""
        self._watched_port = port

    def api_versions(self, request: RequestHeader, frame: bytes) -> None:
        """Send an ApiVersions response, reduced to what the gateway offers."""
        if len(frame) < _CORRELATION_ID_BYTES + _ERROR_CODE.size:
            raise Malformed("the ApiVersions response is truncated")
        (error,) = _ERROR_CODE.unpack_from(frame, _CORRELATION_ID_BYTES)
        if error == ErrorCode.UNSUPPORTED_VERSION:  # always in version 0, whatever version was requested
            request = request._replace(api_version=0)
        body, stands_in = frame[self._pipeline.body_of(request, frame) :], self._watched_port is not None
        self._pipeline.send_body(request, self._context.offered.rewrite(request.api_version, body, stands_in=stands_in))

    def brokers(self, client: RequestHeader, request: RequestHeader, frame: bytes) -> None:
        """Send a response with the addresses of brokers, in the version of the client's own header."""
        body = frame[self._pipeline.body_of(request, frame) :]
        if client.api_version != request.api_version:
            body = in_version(self._context.protocol, client.api_version, body)
        self._send_translated(client, body)

    def metadata_in_pieces(
        self, client: RequestHeader, request: RequestHeader, length: int
    ) -> Callable[[bytes], bytes]:
        """Return a function that takes a large Metadata response as it arrives (`InPieces`)."""
        return LargeResponse(self._context.protocol, client, self._replaced, request, length).feed

    def leaders(self, request: RequestHeader, frame: bytes) -> None:
        """Send a response with the addresses of new leaders."""
        begin = self._pipeline.body_of(request, frame)
        plan, rest = self._context.protocol.response(request.api_key, request.api_version).split(ENDPOINTS)
        end = Walk([begin, *plan], len(frame)).feed(frame)
        if end is None:
            raise Malformed(f"{rest} ends early, after {len(frame) - begin} bytes")
        message = rest.read(frame, end)
        if message[ENDPOINTS]:
            frame = frame[:end] + rest.write({**message, ENDPOINTS: self._replaced(message[ENDPOINTS])})
        self._pipeline.send_frame(frame)

    def leaders_in_pieces(self, request: RequestHeader, length: int) -> Callable[[bytes], bytes]:
        """Return a function that takes a large response with the addresses of new leaders (`InPieces`)."""
        codec = self._context.protocol.response(request.api_key, request.api_version)
        return LargeLeadersResponse(*codec.split(ENDPOINTS), length).feed

    def _replaced(self, brokers: list[Message]) -> list[Message]:
        kept, foreign = self._context.addresses.replaced(brokers)
        self._context.stats.add_foreign(foreign)
        self.has_named = self.has_named or any(broker["port"] == self._watched_port for broker in kept)
        return kept

    def _send_translated(self, request: RequestHeader, body: bytes) -> None:
        codec = self._context.protocol.response(request.api_key, request.api_version)
        if request.api_key == ApiKey.FIND_COORDINATOR:
            response = codec.read(body, max_elements=len(body))
            changed, foreign = self._context.addresses.replace_coordinators(response)
            self._context.stats.add_foreign(foreign)
            body = codec.write(response) if changed else body
        else:
            head, end = codec.read_head(body, "brokers")
            kept = self._replaced(head["brokers"])
            if kept is not head["brokers"]:
                body = codec.write_head({**head, "brokers": kept}, "brokers") + body[end:]
        self._pipeline.send_body(request, body)


def above_limit(protocol: Protocol, header: RequestHeader, frame: bytes) -> Message:
    """Return the response to a request that is too large, of which at least the beginning has arrived.

    These responses have an error for each topic or entity. The first one of the request gets it, so that clients report
    it; to find the others the whole request would have to be read.
    """
    error = {
        "errorCode": int(ErrorCode.INVALID_REQUEST),
        "errorMessage": f"the mutation quota gateway takes requests of at most {MAX_REQUEST_BYTES >> 20} MiB with "
        f"{MAX_ELEMENTS:,} elements; nothing was changed, send several smaller requests",
    }
    results = _RESULTS.get(header.api_key)  # type: ignore[call-overload]
    if results is None:
        return error
    request = protocol.request(header.api_key, header.api_version)
    return {**error, results: [{**request.read_first(frame, header.body, _IDENTITY), **error}]}
