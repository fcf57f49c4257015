"""A client that writes Kafka's frames itself."""

import socket
import struct
import time
from types import TracebackType
from typing import Any, Self

from quota.errors import MutationQuotaError
from quota.wire.headers import RequestHeader, read_response_header, write_request
from quota.wire.protocol import Protocol

Message = dict[str, Any]

_SASL_HANDSHAKE, _SASL_AUTHENTICATE = 17, 36
_LENGTH = struct.Struct(">i")
_SECONDS = 60


class WireClient:
    """One connection, whose requests are written and answers read one by one."""

    def __init__(self, address: tuple[str, int], protocol: Protocol, client_id: str | None) -> None:
        self._address = address
        self._protocol = protocol
        self._client_id = client_id
        self._socket = socket.create_connection(address, _SECONDS)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._sent: list[RequestHeader] = []
        self._correlation_id = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()

    def another(self) -> "WireClient":
        """Return another connection to the same address, which nobody has authenticated."""
        return WireClient(self._address, self._protocol, self._client_id)

    def authenticate(self, user: str, password: str) -> None:
        """Authenticate by PLAIN.

        Raises:
            MutationQuotaError: It was refused.
        """
        self.call(_SASL_HANDSHAKE, 1, {"mechanism": "PLAIN"})
        answer = self.call(_SASL_AUTHENTICATE, 2, {"authBytes": f"\0{user}\0{password}".encode()})
        if answer["errorCode"]:
            raise MutationQuotaError(f"{user} is refused: {answer['errorMessage']}")

    def frame(self, key: int, version: int, message: Message) -> bytes:
        """Return the frame of a request, whose answer is then expected after those before it."""
        self._correlation_id += 1
        header = RequestHeader(key, version, self._correlation_id, self._client_id)
        self._sent.append(header)
        return write_request(header, self._protocol.request(key, version).write(message), self._protocol)

    def write(self, data: bytes) -> float:
        """Write frames at once, and return when (ms of a monotonic clock)."""
        at = time.monotonic() * 1000
        self._socket.sendall(data)
        return at

    def read(self) -> tuple[Message, float]:
        """Return the next answer, and when it came (ms).

        Raises:
            MutationQuotaError: The connection was closed, or the answer is that of another request.
        """
        request = self._sent.pop(0)
        frame = self._exactly(_LENGTH.unpack(self._exactly(_LENGTH.size))[0])
        at = time.monotonic() * 1000
        header = read_response_header(frame, request, self._protocol)
        if header is None or header.correlation_id != request.correlation_id:
            raise MutationQuotaError(f"an answer that is not that to request {request}")
        return self._protocol.response(request.api_key, request.api_version).read(frame, header.body), at

    def call(self, key: int, version: int, message: Message) -> Message:
        """Send a request, and return its answer."""
        self.write(self.frame(key, version, message))
        return self.read()[0]

    def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            part = self._socket.recv(size - len(data))
            if not part:
                raise MutationQuotaError("the connection was closed")
            data += part
        return data
