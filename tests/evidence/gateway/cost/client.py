"""A client of Kafka's protocol on a socket of its own: what is measured is not a client library."""

import socket
import struct
import time
from collections.abc import Mapping
from typing import Any, Self

from quota.gateway.api_keys import ApiKey
from quota.wire.codec import Message
from quota.wire.headers import RequestHeader, read_response_header, write_request
from quota.wire.protocol import Protocol

CLIENT_ID = "cost"

_LENGTH = struct.Struct(">i")
_CHUNK = 1 << 20
_TIMEOUT_SECONDS = 120


class Client:
    """A connection with one request at a time."""

    def __init__(self, protocol: Protocol, port: int) -> None:
        """Connect to a port of this machine."""
        self._protocol = protocol
        self.socket = socket.create_connection(("127.0.0.1", port), _TIMEOUT_SECONDS)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._correlation_id = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self.socket.close()

    def authenticate(self, user: str, password: str) -> None:
        """Authenticate by SASL PLAIN.

        Raises:
            ConnectionError: The broker does not accept it.
        """
        self.call(ApiKey.SASL_HANDSHAKE, 1, {"mechanism": "PLAIN"})
        answer = self.call(ApiKey.SASL_AUTHENTICATE, 2, {"authBytes": f"\0{user}\0{password}".encode()})
        if answer["errorCode"]:
            raise ConnectionError(answer["errorMessage"])

    def request(self, key: int, version: int, message: Mapping[str, Any]) -> bytes:
        """Return the frame of a request."""
        self._correlation_id += 1
        header = RequestHeader(key, version, self._correlation_id, CLIENT_ID)
        return write_request(header, self._protocol.request(key, version).write(message), self._protocol)

    def call(self, key: int, version: int, message: Mapping[str, Any]) -> Message:
        """Send a request, and return the message of its answer."""
        self.socket.sendall(self.request(key, version, message))
        frame = self.receive()
        header = RequestHeader(key, version, self._correlation_id, CLIENT_ID)
        found = read_response_header(frame, header, self._protocol)
        if found is None or found.correlation_id != self._correlation_id:
            raise ConnectionError("this is not the answer to the request")
        return self._protocol.response(key, version).read(frame, found.body)

    def seconds(self, frame: bytes) -> float:
        """Send a frame, and return the time until its answer is there, which is not read."""
        begun = time.perf_counter()
        self.socket.sendall(frame)
        self.receive()
        return time.perf_counter() - begun

    def receive(self) -> bytes:
        """Return the next frame, without its length."""
        start = self._exactly(_LENGTH.size)
        return bytes(self._exactly(_LENGTH.unpack(start)[0]))

    def _exactly(self, size: int) -> bytearray:
        data = bytearray(size)
        view, there = memoryview(data), 0
        while there < size:
            count = self.socket.recv_into(view[there : there + _CHUNK])
            if not count:
                raise ConnectionError("the connection was closed")
            there += count
        return data
