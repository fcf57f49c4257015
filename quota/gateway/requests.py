"""A client's incoming requests: which APIs are offered, in which versions, and up to which size."""

import struct
from collections.abc import Mapping
from typing import Any

from quota.gateway.pipeline import ChannelError, FrameStream
from quota.records.request import OPERATIONS, STRICT_SINCE
from quota.wire.headers import MARK, MARKED_SINCE, MAX_HEADER, TAG, RequestHeader, acks_of_produce, read_request_header
from quota.wire.primitives import Malformed
from quota.wire.protocol import ApiKey, Protocol

_MIN_VERSIONS = {
    ApiKey.CREATE_TOPICS: 2,  # older versions have no throttle time; the same applies to DeleteTopics
    ApiKey.DELETE_TOPICS: 1,
}

LAST_FROM_LEADERS = 10
"""The last version of a consumer's Fetch that only the leader of a partition answers (KIP-392). To a later one, a
follower that lags behind answers that the offset is out of range, and consumers begin at another one."""

_MAX_REMEMBERED = 64
"""The number of rewritten ApiVersions responses to cache: brokers send all clients the same one, and most connections
begin with it."""

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


class OfferedApis:
    """The versions of each API that both the gateway and a broker know.

    Versions of requests that would change topics unseen are left out.
    """

    def __init__(self, protocol: Protocol, *, permissive: bool) -> None:
        self.protocol = protocol
        self._ranges: dict[int, tuple[int, int]] = {}
        self._rewritten: dict[tuple[int, bytes, bool], bytes] = {}
        for key, api in protocol.apis.items():
            first, last = max(api.min_version, _MIN_VERSIONS.get(key, 0)), api.max_version  # type: ignore[call-overload]
            if not permissive and key in OPERATIONS:
                first = max(first, STRICT_SINCE[OPERATIONS[ApiKey(key)]])
            if first <= last:
                self._ranges[key] = (first, last)

    def offers(self, key: int, version: int) -> bool:
        """Return whether clients may send requests of this version."""
        first, last = self._ranges.get(key, (0, -1))
        return first <= version <= last

    def rewrite(self, version: int, body: bytes, *, stands_in: bool) -> bytes:
        """Return the body of a broker's ApiVersions response, reduced to what the gateway offers, and marked.

        A broker that stands in for another one, which may be a leader, offers no Fetch that followers answer.
        """
        known = self._rewritten.get((version, body, stands_in))
        if known is None:
            codec = self.protocol.response(ApiKey.API_VERSIONS, version)
            response = self._reduced(codec.read(body), stands_in=stands_in)
            if version >= MARKED_SINCE:
                response["_tags"] = sorted([*response.get("_tags", []), (TAG, MARK)])
            known = codec.write(response)
            if len(self._rewritten) == _MAX_REMEMBERED:
                self._rewritten.clear()
            self._rewritten[version, body, stands_in] = known
        return known

    def _reduced(self, response: Mapping[str, Any], *, stands_in: bool) -> dict[str, Any]:
        kept = []
        for api in response["apiKeys"]:
            first, last = self._ranges.get(api["apiKey"], (0, -1))
            first, last = max(first, api["minVersion"]), min(last, api["maxVersion"])
            if stands_in and api["apiKey"] == ApiKey.FETCH:
                last = min(last, LAST_FROM_LEADERS)
            if first <= last:
                # Brokers advertise version 0 of Produce, or librdkafka does not compress (KAFKA-18659).
                first = api["minVersion"] if api["apiKey"] == ApiKey.PRODUCE else first
                kept.append({**api, "minVersion": first, "maxVersion": last})
        return {**response, "apiKeys": kept}


class RequestStream(FrameStream):
    """The requests of one client."""

    def __init__(self, offered: OfferedApis) -> None:
        super().__init__()
        self._offered = offered

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
        if key != ApiKey.API_VERSIONS and not self._offered.offers(key, version):
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
            header = read_request_header(prefix, self._offered.protocol)
            if header is not None:
                acks = acks_of_produce(prefix, header) if header.api_key == ApiKey.PRODUCE else 1
                if acks is not None:
                    return header, acks
        if self.is_complete or len(prefix) == size:
            raise Malformed("a request is truncated within its header")
        return None
