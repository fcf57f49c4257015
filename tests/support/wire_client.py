"""A client that writes Kafka's frames itself, so that no client library is compared or measured."""

import socket
import ssl
import struct
import time
from collections.abc import Mapping
from typing import Any, Self

from quota.errors import MutationQuotaError
from quota.wire.headers import RequestHeader, read_response_header, write_request
from quota.wire.protocol import ApiKey, Protocol

Message = dict[str, Any]

_LENGTH = struct.Struct(">i")
_CHUNK = 1 << 20
_SECONDS = 120


class WireClient:
    """One connection, on which requests are written and responses read one by one."""

    def __init__(
        self, address: tuple[str, int], protocol: Protocol, client_id: str | None, tls: ssl.SSLContext | None = None
    ) -> None:
        self._address = address
        self._protocol = protocol
        self._client_id = client_id
        self.socket = socket.create_connection(address, _SECONDS)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if tls:
            self.socket = tls.wrap_socket(self.socket, server_hostname=address[0])
        self._sent: list[RequestHeader] = []
        self._correlation_id = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self.socket.close()

    def another(self) -> "WireClient":
        """Return another connection to the same address, without authentication."""
        return WireClient(self._address, self._protocol, self._client_id)

    def authenticate(self, user: str, password: str) -> None:
        """Authenticate by PLAIN."""
        self.call(ApiKey.SASL_HANDSHAKE, 1, {"mechanism": "PLAIN"})
        answer = self.call(ApiKey.SASL_AUTHENTICATE, 2, {"authBytes": f"\0{user}\0{password}".encode()})
        if answer["errorCode"]:
            raise MutationQuotaError(f"{user} is rejected: {answer['errorMessage']}")

    def request(self, key: int, version: int, message: Mapping[str, Any]) -> bytes:
        """Return the frame of a request whose response only `receive` can read."""
        self._correlation_id += 1
        return self._request(self._header(key, version), message)

    def frame(self, key: int, version: int, message: Mapping[str, Any]) -> bytes:
        """Return the frame of a request, and expect its response after the earlier ones."""
        self._correlation_id += 1
        header = self._header(key, version)
        self._sent.append(header)
        return self._request(header, message)

    def write(self, data: bytes) -> float:
        """Write frames in one call, and return the time (ms of a monotonic clock)."""
        at = time.monotonic() * 1000
        self.socket.sendall(data)
        return at

    def read(self) -> tuple[Message, float]:
        """Return the next response, and its time (ms)."""
        request = self._sent.pop(0)
        frame = self.receive()
        at = time.monotonic() * 1000
        begin = read_response_header(frame, request, self._protocol)
        if _LENGTH.unpack_from(frame) != (request.correlation_id,):
            raise MutationQuotaError(f"an answer that is not that to request {request}")
        return self._protocol.response(request.api_key, request.api_version).read(frame, begin), at

    def receive(self) -> bytes:
        """Return the next frame, without its length."""
        return bytes(self._exactly(_LENGTH.unpack(self._exactly(_LENGTH.size))[0]))

    def call(self, key: int, version: int, message: Mapping[str, Any]) -> Message:
        """Send a request, and return its answer."""
        self.write(self.frame(key, version, message))
        return self.read()[0]

    def seconds(self, frame: bytes) -> float:
        """Send a frame, and return the time until its response arrives, which is not decoded."""
        begun = time.perf_counter()
        self.socket.sendall(frame)
        self.receive()
        return time.perf_counter() - begun

    def _header(self, key: int, version: int) -> RequestHeader:
        return RequestHeader(key, version, self._correlation_id, self._client_id)

    def _request(self, header: RequestHeader, message: Mapping[str, Any]) -> bytes:
        codec = self._protocol.request(header.api_key, header.api_version)
        return write_request(header, codec.write(message), self._protocol)

    def _exactly(self, size: int) -> bytearray:
        data = bytearray(size)
        view, there = memoryview(data), 0
        while there < size:
            count = self.socket.recv_into(view[there : there + _CHUNK])
            if not count:
                raise MutationQuotaError("the connection was closed")
            there += count
        return data
