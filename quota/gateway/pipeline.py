"""The requests on their way to a broker, and their answers, which reach the client in the order of the requests."""

import struct
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from quota.gateway.frames import FrameStream
from quota.gateway.gate import ChannelError
from quota.wire.codec import Message
from quota.wire.headers import RequestHeader, read_response_header, write_request, write_response
from quota.wire.primitives import Malformed
from quota.wire.protocol import Protocol

Handler = Callable[[RequestHeader, bytes], None]
"""Takes the header of a request and a whole frame: the request, or the broker's answer to it."""

_INT = struct.Struct(">i")
_MAX_ANSWER_BYTES = 256 * 1024 * 1024
"""The maximum size of an answer that is read whole."""
_MAX_ANSWER_ELEMENTS = 1_000_000
"""The maximum number of elements of its arrays: a topic of 10,000 partitions has 70,000."""
_MAX_EXPECTED = 1000
"""Answers that may be outstanding: what is remembered of a request takes more room than a short request itself."""


class _Expected(NamedTuple):
    """An answer that is to come from the broker, or (`ready`) one of the gateway's own that waits for its turn."""

    request: RequestHeader
    handle: Handler | None = None
    ready: bytes = b""


class Pipeline:
    """The two directions of a channel; `to_broker` and `to_client` collect the bytes to be sent."""

    __slots__ = ("_answers", "_expected", "_protocol", "to_broker", "to_client")

    def __init__(self, protocol: Protocol) -> None:
        self._protocol = protocol
        self._answers = FrameStream()
        self._expected: deque[_Expected] = deque()
        self.to_broker: list[bytes] = []
        self.to_client: list[bytes] = []

    @property
    def is_idle(self) -> bool:
        """Whether no answer is to come, and none is being passed on."""
        return not self._expected

    @property
    def is_full(self) -> bool:
        """Whether no request may begin until an answer arrives."""
        return len(self._expected) >= _MAX_EXPECTED

    # Requests

    def expect(self, header: RequestHeader, handle: Handler | None = None) -> None:
        """Expect an answer of the broker. Without a handler it is passed on as its bytes arrive."""
        self._expected.append(_Expected(header, handle))

    def forward(self, header: RequestHeader, frame: bytes, handle: Handler | None = None) -> None:
        """Send a request to the broker unchanged."""
        self.to_broker.append(_INT.pack(len(frame)) + frame)
        self.expect(header, handle)

    def call(self, header: RequestHeader, message: Message, handle: Handler) -> None:
        """Send a request of the gateway's to the broker."""
        body = self._protocol.request(header.api_key, header.api_version).write(message)
        self.to_broker.append(write_request(header, body, self._protocol))
        self.expect(header, handle)

    # Answers

    def take(self, data: bytes) -> None:
        """Take bytes of the broker's answers.

        Raises:
            ChannelError: an answer is not the one expected next, or is too large.
            Malformed: an answer cannot be read.
        """
        passed = self._answers.add(data)
        if passed:
            self.to_client.append(passed)
            if not self._answers.is_passing:
                self._end_answer()
        while self._next_answer():
            pass

    def answer(self, header: RequestHeader, message: Message) -> None:
        """Answer a request as soon as all requests before it are answered."""
        frame = self._frame(header, message)
        if self._expected:
            self._expected.append(_Expected(header, ready=frame))
        else:
            self.to_client.append(frame)

    def send(self, header: RequestHeader, message: Message) -> None:
        """Answer the request whose turn it is, from its handler."""
        self.to_client.append(self._frame(header, message))

    def send_body(self, header: RequestHeader, body: bytes) -> None:
        """Answer the request whose turn it is by a message that is written already."""
        self.to_client.append(write_response(header, body, self._protocol))

    def read_answer(self, header: RequestHeader, frame: bytes) -> Message:
        """Return the message of an answer.

        Raises:
            Malformed: it is not an answer to this request.
        """
        codec = self._protocol.response(header.api_key, header.api_version)
        return codec.read(frame, self.body_of(header, frame), _MAX_ANSWER_ELEMENTS)

    def body_of(self, header: RequestHeader, frame: bytes) -> int:
        """Return where the message of an answer begins.

        Raises:
            Malformed: the answer ends before.
        """
        found = read_response_header(frame, header, self._protocol)
        if found is None:
            raise Malformed("an answer that ends within its header")
        return found.body

    def _frame(self, header: RequestHeader, message: Message) -> bytes:
        body = self._protocol.response(header.api_key, header.api_version).write(message)
        return write_response(header, body, self._protocol)

    def _next_answer(self) -> bool:
        """Process the next answer; return false if it is not there yet."""
        length = self._answers.length
        if length is None:
            return False
        if length < _INT.size:
            raise ChannelError("answer", f"the broker sent an answer of {length} bytes")
        prefix = self._answers.prefix(_INT.size)
        if len(prefix) < _INT.size:
            return False
        (correlation_id,) = _INT.unpack(prefix)
        if not self._expected or self._expected[0].request.correlation_id != correlation_id:
            raise ChannelError("answer", f"the broker sent an answer {correlation_id} that is not expected")
        request, handle, _ = self._expected[0]
        if handle is None:
            self.to_client.append(self._answers.pass_on())
            if self._answers.is_passing:
                return False
        elif length > _MAX_ANSWER_BYTES:
            raise ChannelError("answer", f"an answer of {length} bytes to API {request.api_key}")
        elif not self._answers.is_complete:
            return False
        else:
            handle(request, self._answers.take())
        self._end_answer()
        return True

    def _end_answer(self) -> None:
        """Forget the answer that came, whole, and send the gateway's own ones whose turn it is."""
        self._expected.popleft()
        while self._expected and self._expected[0].ready:
            self.to_client.append(self._expected.popleft().ready)
