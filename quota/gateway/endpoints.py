"""The addresses of new leaders in responses to Produce, Fetch and share groups (KIP-951).

They are the last field of responses that may be large, and that are forwarded as they arrive. A large one is therefore
walked through, and its length cannot change any more when the addresses come: they are removed, and clients use the
addresses of the last Metadata response.
"""

from collections.abc import Callable, Sequence
from functools import cache

from quota.gateway.addresses import Addresses
from quota.wire.headers import RequestHeader
from quota.wire.message_codec import Message, MessageCodec
from quota.wire.primitives import Malformed
from quota.wire.protocol import Address, ApiKey, Protocol
from quota.wire.walk import Plan, Walk, skip_tags

NAMING_LEADERS = {ApiKey.PRODUCE: 10, ApiKey.FETCH: 16, ApiKey.SHARE_FETCH: 0, ApiKey.SHARE_ACKNOWLEDGE: 0}
"""The first versions whose responses name leaders."""
_FIELD = "nodeEndpoints"
_LENGTH_BYTES = 4
_CORRELATION_ID_BYTES = 4
_MAX_TAIL_BYTES = 1024 * 1024
_FIRST_FILLER = 100
"""A tag that no release of Kafka uses in these responses; the receiver ignores it."""


class LeaderEndpoints:
    """Replaces the addresses in the responses of all channels."""

    def __init__(
        self, protocol: Protocol, addresses: Addresses, on_foreign: Callable[[Sequence[Address]], None]
    ) -> None:
        self._protocol = protocol
        self._addresses = addresses
        self._on_foreign = on_foreign
        self._parts = cache(self._parts_of)

    def names_leaders(self, key: int, version: int) -> bool:
        """Return whether responses have addresses to replace."""
        first = NAMING_LEADERS.get(key)  # type: ignore[call-overload]
        return self._addresses.rewritten and first is not None and version >= first

    def replaced(self, request: RequestHeader, frame: bytes, body: int) -> bytes:
        """Return a response frame, whose body begins at an offset, with the gateway's addresses."""
        plan, rest = self._parts(request.api_key, request.api_version)
        end = Walk([body, *plan], len(frame)).feed(frame)
        if end is None:
            raise Malformed(f"{rest} ends early, after {len(frame) - body} bytes")
        message = rest.read(frame, end)
        if not message[_FIELD]:
            return frame
        kept, foreign = self._addresses.replaced(message[_FIELD])
        self._on_foreign(foreign)
        return frame[:end] + rest.write({**message, _FIELD: kept})

    def in_pieces(self, request: RequestHeader, length: int) -> Callable[[bytes], bytes]:
        """Return a function that takes a response of this length in pieces, and returns them without addresses.

        Both begin with the length field. What is returned may be short of what was taken, until the end.
        """
        plan, rest = self._parts(request.api_key, request.api_version)
        return _Pieces([_LENGTH_BYTES + _CORRELATION_ID_BYTES, skip_tags, *plan], rest, _LENGTH_BYTES + length).feed

    def _parts_of(self, key: int, version: int) -> tuple[Plan, MessageCodec]:
        return self._protocol.response(key, version).split(_FIELD)


class _Pieces:
    """One large response."""

    def __init__(self, plan: Plan, codec: MessageCodec, size: int) -> None:
        self._walk = Walk(plan, size)
        self._codec = codec
        self._left = size
        self._tail: bytes | None = None

    def feed(self, data: bytes) -> bytes:
        self._left -= len(data)
        if self._tail is None:
            end = self._walk.feed(data)
            if end is None:
                return data
            sent, self._tail = data[:end], data[end:]
        else:
            sent, self._tail = b"", self._tail + data
        if len(self._tail) + self._left > _MAX_TAIL_BYTES:
            raise Malformed(f"{self._codec} has more than {_MAX_TAIL_BYTES} bytes after its records")
        return sent if self._left else sent + _without_addresses(self._codec, self._tail)


def _without_addresses(codec: MessageCodec, tail: bytes) -> bytes:
    """Return the end of a response without addresses, as long as before: unknown tags take their place."""
    message = codec.read(tail)
    if not message[_FIELD]:
        return tail
    removed: Message = {**message, _FIELD: []}
    missing = len(tail) - len(codec.write(removed))
    known = message.get("_tags", [])
    first = max([_FIRST_FILLER, *(tag + 1 for tag, _ in known)])
    for parts in (1, 2):  # one tag cannot have 130 bytes
        sizes = [missing // parts, *[missing - missing // parts] * (parts - 1)]
        fillers = [(first + number, _filler(size)) for number, size in enumerate(sizes)]
        filled = codec.write({**removed, "_tags": [*known, *fillers]})
        if len(filled) == len(tail):
            return filled
    raise Malformed(f"{codec} has addresses that cannot be removed")


def _filler(size: int) -> bytes:
    """Return the content of a tag below 128 that takes so many bytes, together with the tag and its length."""
    length_bytes = next(count for count in range(1, 6) if size - 1 - count < 1 << 7 * count)
    return bytes(max(size - 1 - length_bytes, 0))
