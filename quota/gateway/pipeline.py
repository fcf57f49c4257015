"""The frames of a channel: streams that are cut into them, and the requests in flight to a broker.

Their responses reach the client in the order of the requests.
"""

import struct
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from quota.errors import MutationQuotaError
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
_MAX_RESPONSE_ELEMENTS = 1_000_000
_MAX_EXPECTED = 1000
"""The maximum number of outstanding responses: the state of a request takes more memory than a short request."""


class ChannelError(MutationQuotaError):
    """A channel that must be closed; `reason` is a word for the metrics, the message is for the log."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class FrameStream:
    """The bytes from one side of a connection.

    A Kafka frame begins with its length (int32), which excludes these four bytes.
    """

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._passing = 0
        self._discards = False
        self.taken = 0
        """The number of frames that were read or begun to be forwarded."""

    def __len__(self) -> int:
        """Return the number of bytes held."""
        return len(self._buffer)

    def add(self, data: bytes) -> bytes:
        """Add received bytes; return those that belong to the frame being forwarded."""
        if not self._passing:
            self._buffer += data
            return b""
        passed = data[: self._passing]
        self._passing -= len(passed)
        if len(passed) < len(data):
            self._buffer += data[len(passed) :]
        return b"" if self._discards else passed

    @property
    def is_passing(self) -> bool:
        """Whether a frame is being forwarded or discarded that has not arrived completely."""
        return self._passing > 0

    @property
    def length(self) -> int | None:
        """The length of the next frame in bytes; None if it has not arrived, or while another frame is forwarded."""
        if self._passing or len(self._buffer) < _INT.size:
            return None
        return int(_INT.unpack_from(self._buffer)[0])

    def prefix(self, most: int) -> bytes:
        """Return the bytes of the next frame that have arrived, without its length field, at most `most`."""
        end = min(self.length or 0, most) + _INT.size
        return bytes(self._buffer[_INT.size : end])

    @property
    def is_complete(self) -> bool:
        """Whether the next frame is complete."""
        length = self.length
        return length is not None and len(self._buffer) >= _INT.size + length

    def take(self) -> bytes:
        """Remove the next frame, which must be complete, and return it without its length."""
        end = _INT.size + (self.length or 0)
        frame = bytes(self._buffer[_INT.size : end])
        del self._buffer[:end]
        self.taken += 1
        return frame

    def clear(self) -> None:
        """Discard the bytes held."""
        self._buffer.clear()

    def pass_on(self) -> bytes:
        """Start to forward the next frame; return the bytes that have arrived, including its length field."""
        end = _INT.size + (self.length or 0)
        passed = bytes(memoryview(self._buffer)[:end])
        del self._buffer[:end]
        self.taken += 1
        self._passing, self._discards = end - len(passed), False
        return passed

    def discard(self) -> bytes:
        """Start to discard the next frame; return the bytes that have arrived, without its length field."""
        arrived = self.pass_on()
        self._discards = True
        return arrived[_INT.size :]


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

    def expects(self, is_wanted: Callable[[RequestHeader], bool]) -> bool:
        """Return whether the response to a wanted request is outstanding."""
        return any(is_wanted(expected.request) for expected in self._expected)

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
