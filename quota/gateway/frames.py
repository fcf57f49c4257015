"""A stream of bytes cut into frames, each either read whole or forwarded as its bytes arrive."""

import struct

_LENGTH = struct.Struct(">i")
LENGTH_BYTES = _LENGTH.size


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
        if self._passing or len(self._buffer) < LENGTH_BYTES:
            return None
        return int(_LENGTH.unpack_from(self._buffer)[0])

    def prefix(self, most: int) -> bytes:
        """Return the bytes of the next frame that have arrived, without its length field, at most `most`."""
        end = min(self.length or 0, most) + LENGTH_BYTES
        return bytes(self._buffer[LENGTH_BYTES:end])

    @property
    def is_complete(self) -> bool:
        """Whether the next frame is complete."""
        length = self.length
        return length is not None and len(self._buffer) >= LENGTH_BYTES + length

    def take(self) -> bytes:
        """Remove the next frame, which must be complete, and return it without its length."""
        end = LENGTH_BYTES + (self.length or 0)
        frame = bytes(self._buffer[LENGTH_BYTES:end])
        del self._buffer[:end]
        self.taken += 1
        return frame

    def clear(self) -> None:
        """Discard the bytes held."""
        self._buffer.clear()

    def pass_on(self) -> bytes:
        """Start to forward the next frame; return the bytes that have arrived, including its length field."""
        end = LENGTH_BYTES + (self.length or 0)
        passed = bytes(self._buffer[:end])
        del self._buffer[:end]
        self.taken += 1
        self._passing, self._discards = end - len(passed), False
        return passed

    def discard(self) -> bytes:
        """Start to discard the next frame; return the bytes that have arrived, without its length field."""
        arrived = self.pass_on()
        self._discards = True
        return arrived[LENGTH_BYTES:]
