"""A client's incoming requests: which ones are accepted, and up to which size."""

import struct

from quota.gateway.context import ChannelError, GatewayContext
from quota.gateway.frames import FrameStream
from quota.wire.headers import MAX_HEADER, RequestHeader, acks_of_produce, read_request_header
from quota.wire.primitives import Malformed
from quota.wire.protocol import ApiKey

_START = struct.Struct(">hhi")  # API key, version, correlation id
_LEAST_BYTES = 10
_MAX_BYTES = 1024**3
"""What is longer is no request of Kafka's; a broker rejects requests above its `socket.request.max.bytes`."""

_PROXY_HEADERS = frozenset({int.from_bytes(b"PROX"), int.from_bytes(b"\r\n\r\n")})
"""The first four bytes of a load balancer's PROXY header, of version 1 and 2, read as the length of a request."""

_BEFORE_AUTHENTICATION = frozenset({ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE})
_MAX_UNAUTHENTICATED_BYTES = 512 * 1024
"""Kafka's default of `sasl.server.max.receive.size`."""
_HEAD_SIZES = (1024, 2 * MAX_HEADER)
"""The prefix sizes in which the head of a request is searched [bytes]: most are short; a long transactional id makes it
long."""


class RequestStream(FrameStream):
    """The requests of one client."""

    def __init__(self, context: GatewayContext) -> None:
        super().__init__()
        self._context = context

    def peek(self, *, authenticated: bool) -> RequestHeader | None:
        """Return the header of the next request, without its client id; None if it has not arrived."""
        length = self.length
        if length is None:
            return None
        self.check_size(_MAX_BYTES if authenticated else _MAX_UNAUTHENTICATED_BYTES)
        start = self.prefix(_START.size)
        if len(start) < _START.size:
            return None
        key, version, correlation_id = _START.unpack(start)
        if not authenticated and key not in _BEFORE_AUTHENTICATION:
            raise ChannelError("unauthenticated", f"API {key} before authentication")
        if key != ApiKey.API_VERSIONS and not self._context.offered.offers(key, version):
            raise ChannelError("not_offered", f"API {key} in version {version}, which is not offered")
        return RequestHeader(key, version, correlation_id, None)

    @property
    def has_start(self) -> bool:
        """Whether so much of the next request has arrived that its header and its first topic can be read."""
        return len(self.prefix(_HEAD_SIZES[-1])) == _HEAD_SIZES[-1]

    def has_token(self) -> bool:
        """Return whether the next frame, which is a bare token of a SASL exchange, is complete."""
        if self.length is not None:
            self.check_size(_MAX_UNAUTHENTICATED_BYTES, 0)
        return self.is_complete

    def check_size(self, most: int, least: int = _LEAST_BYTES) -> None:
        """Check the size of the next request."""
        length = self.length or 0
        if length in _PROXY_HEADERS:
            why = "a PROXY header, which the gateway does not take; have the load balancer send none"
            raise ChannelError("size", why)
        if not least <= length <= most:
            raise ChannelError("size", f"a request of {length} bytes; {least} to {most} are allowed")

    def read_head(self) -> tuple[RequestHeader, int] | None:
        """Return the header of the next request and its acks (1 if it is not Produce); None if they have not arrived.

        A Produce request with acks=0 has no response.
        """
        for size in _HEAD_SIZES:
            prefix = self.prefix(size)
            header = read_request_header(prefix, self._context.protocol)
            if header is not None:
                acks = acks_of_produce(prefix, header) if header.api_key == ApiKey.PRODUCE else 1
                if acks is not None:
                    return header, acks
        if self.is_complete or len(prefix) == size:
            raise Malformed("a request is truncated within its header")
        return None
