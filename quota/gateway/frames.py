"""A stream of bytes cut into frames, each either taken whole or passed on as its bytes arrive."""

import struct

_LENGTH = struct.Struct(">i")
LENGTH_BYTES = _LENGTH.size


class FrameStream:
    """The bytes from one side of a connection.

    Kafka's frames begin with their length (int32), which does not count itself.
    """

    __slots__ = ("_buffer", "_passing")

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._passing = 0

    def __len__(self) -> int:
        """Return the number of bytes held."""
        return len(self._buffer)

    def add(self, data: bytes) -> bytes:
        """Take bytes; return those of them that belong to the frame being passed on."""
        if not self._passing:
            self._buffer += data
            return b""
        passed = data[: self._passing]
        self._passing -= len(passed)
        if len(passed) < len(data):
            self._buffer += data[len(passed) :]
        return passed

    @property
    def is_passing(self) -> bool:
        """Whether a frame is being passed on whose end is not there yet."""
        return self._passing > 0

    @property
    def length(self) -> int | None:
        """The length of the frame that comes next, in bytes; None if it is not there yet."""
        if self._passing or len(self._buffer) < LENGTH_BYTES:
            return None
        return int(_LENGTH.unpack_from(self._buffer)[0])

    def prefix(self, most: int) -> bytes:
        """Return what is there of the next frame, behind its length, up to `most` bytes and its end."""
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
        return frame

    def pass_on(self) -> bytes:
        """Begin to pass the next frame on; return what is there of it, with its length."""
        end = LENGTH_BYTES + (self.length or 0)
        passed = bytes(self._buffer[:end])
        del self._buffer[:end]
        self._passing = end - len(passed)
        return passed
