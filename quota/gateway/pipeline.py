"""The requests in flight to a broker, and their responses, which reach the client in the order of the requests."""

import struct
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from quota.gateway.context import ChannelError
from quota.gateway.frames import FrameStream
from quota.wire.headers import RequestHeader, read_response_header, write_request, write_response
from quota.wire.message_codec import Message
from quota.wire.protocol import Protocol

Handler = Callable[[RequestHeader, bytes], None]
"""Takes the header of a request and a whole frame: the request, or the broker's response."""

InPieces = Callable[[RequestHeader, int], Callable[[bytes], bytes]]
"""Takes the header of a request and the length of its response; returns a function of pieces of the frame, with its
length field, which returns the bytes for the client."""

_INT = struct.Struct(">i")
WHOLE_BYTES = 64 * 1024
"""The size up to which a response is read whole although it could be changed as its bytes arrive [bytes]."""
_MAX_RESPONSE_BYTES = 256 * 1024 * 1024
"""The maximum size of a response that is decoded [bytes]."""
_MAX_RESPONSE_ELEMENTS = 1_000_000
"""The maximum number of array elements in such a response."""
_MAX_EXPECTED = 1000
"""The maximum number of outstanding responses: the state of a request takes more memory than a short request."""


class _Expected(NamedTuple):
    """An outstanding response of the broker, or (`ready`) a response of the gateway that waits for its turn."""

    request: RequestHeader
    handle: Handler | None = None
    ready: bytes = b""
    in_pieces: InPieces | None = None


class Pipeline:
    """The two directions of a channel; `to_broker` and `to_client` collect the bytes to be sent."""

    def __init__(self, protocol: Protocol) -> None:
        self._protocol = protocol
        self._responses = FrameStream()
        self._expected: deque[_Expected] = deque()
        self._change: Callable[[bytes], bytes] | None = None
        self.to_broker: list[bytes] = []
        self.to_client: list[bytes] = []

    @property
    def is_idle(self) -> bool:
        """Whether no response is outstanding or being forwarded."""
        return not self._expected

    @property
    def is_full(self) -> bool:
        """Whether no request may start until a response arrives."""
        return len(self._expected) >= _MAX_EXPECTED

    @property
    def held_bytes(self) -> int:
        """The number of buffered bytes of responses that are read whole."""
        return len(self._responses)

    # Requests

    def expect(self, header: RequestHeader, handle: Handler | None = None, in_pieces: InPieces | None = None) -> None:
        """Expect a response from the broker. Without a handler it is forwarded as its bytes arrive.

        With `in_pieces`, a response that is longer than `WHOLE_BYTES` is forwarded as its bytes arrive and are changed.
        """
        self._expected.append(_Expected(header, handle, in_pieces=in_pieces))

    def forward(
        self, header: RequestHeader, frame: bytes, handle: Handler | None = None, in_pieces: InPieces | None = None
    ) -> None:
        """Send a request to the broker unchanged."""
        self.to_broker.append(_INT.pack(len(frame)) + frame)
        self.expect(header, handle, in_pieces)

    def call(self, header: RequestHeader, message: Message, handle: Handler, in_pieces: InPieces | None = None) -> None:
        """Send a request by the gateway to the broker."""
        body = self._protocol.request(header.api_key, header.api_version).write(message)
        self.to_broker.append(write_request(header, body, self._protocol))
        self.expect(header, handle, in_pieces)

    # Responses

    def take(self, data: bytes) -> None:
        """Process bytes received from the broker."""
        passed = self._responses.add(data)
        if passed:
            self.to_client.append(self._change(passed) if self._change else passed)
            if not self._responses.is_passing:
                self._end_response()
        while self._next_response():
            pass

    def respond(self, header: RequestHeader, message: Message) -> None:
        """Send the gateway's own response to a request, after the responses to all requests before it."""
        frame = self._frame(header, message)
        if self._expected:
            self._expected.append(_Expected(header, ready=frame))
        else:
            self.to_client.append(frame)

    def send(self, header: RequestHeader, message: Message) -> None:
        """Send the response to the oldest outstanding request; to be called by its handler."""
        self.to_client.append(self._frame(header, message))

    def send_frame(self, frame: bytes) -> None:
        """Send the response to the oldest outstanding request, as a frame; to be called by its handler."""
        self.to_client.append(_INT.pack(len(frame)) + frame)

    def send_body(self, header: RequestHeader, body: bytes) -> None:
        """Send the response to the oldest outstanding request, as an encoded body; to be called by its handler."""
        self.to_client.append(write_response(header, body, self._protocol))

    def read_response(self, header: RequestHeader, frame: bytes) -> Message:
        """Decode a response frame."""
        codec = self._protocol.response(header.api_key, header.api_version)
        return codec.read(frame, self.body_of(header, frame), _MAX_RESPONSE_ELEMENTS)

    def body_of(self, header: RequestHeader, frame: bytes) -> int:
        """Return the offset of the body in a response frame."""
        return read_response_header(frame, header, self._protocol)

    def _frame(self, header: RequestHeader, message: Message) -> bytes:
        body = self._protocol.response(header.api_key, header.api_version).write(message)
        return write_response(header, body, self._protocol)

    def _next_response(self) -> bool:
        """Process the next response; return false if it has not arrived."""
        length = self._responses.length
        if length is None:
            return False
        if length < _INT.size:
            raise ChannelError("answer", f"the broker sent a response of {length} bytes")
        prefix = self._responses.prefix(_INT.size)
        if len(prefix) < _INT.size:
            return False
        (correlation_id,) = _INT.unpack(prefix)
        if not self._expected or self._expected[0].request.correlation_id != correlation_id:
            raise ChannelError("answer", f"the broker sent an unexpected response (correlation id {correlation_id})")
        request, handle, _, in_pieces = self._expected[0]
        if in_pieces is not None and length > WHOLE_BYTES:
            self._change, handle = in_pieces(request, length), None
        if handle is None:
            passed = self._responses.pass_on()
            self.to_client.append(self._change(passed) if self._change else passed)
            if self._responses.is_passing:
                return False
        elif length > _MAX_RESPONSE_BYTES:
            raise ChannelError(
                "answer",
                f"the response to API {request.api_key} has {length} bytes, at most {_MAX_RESPONSE_BYTES} are accepted",
            )
        elif not self._responses.is_complete:
            return False
        else:
            handle(request, self._responses.take())
        self._end_response()
        return True

    def _end_response(self) -> None:
        """Remove the completed response, and send the gateway's own responses that come next."""
        self._expected.popleft()
        self._change = None
        while self._expected and self._expected[0].ready:
            self.to_client.append(self._expected.popleft().ready)
