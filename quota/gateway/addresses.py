"""The broker addresses in responses, which must be the gateway's own; otherwise clients would bypass it.

Those of new leaders in responses to Produce, Fetch and share groups (KIP-951) are the last field of responses that may
be large, and that are forwarded as they arrive. A large one is therefore walked through, and its length cannot change
any more when the addresses come: they are removed, and clients use the addresses of the last Metadata response.
"""

from collections.abc import Iterable, Mapping

from quota.errors import ErrorCode
from quota.wire.message_codec import Message, MessageCodec
from quota.wire.primitives import Malformed
from quota.wire.protocol import Address, ApiKey
from quota.wire.walk import Plan, Walk, skip_tags

NAMING_BROKERS = frozenset({ApiKey.METADATA, ApiKey.DESCRIBE_CLUSTER, ApiKey.FIND_COORDINATOR})
"""The APIs whose responses contain broker addresses in every version."""

_NO_NODE = {"nodeId": -1, "host": "", "port": -1}

_NAMING_LEADERS = {ApiKey.PRODUCE: 10, ApiKey.FETCH: 16, ApiKey.SHARE_FETCH: 0, ApiKey.SHARE_ACKNOWLEDGE: 0}
"""The first versions whose responses name leaders."""
ENDPOINTS = "nodeEndpoints"
"""The field with the addresses of new leaders."""
_LENGTH_BYTES = 4
_CORRELATION_ID_BYTES = 4
_MAX_TAIL_BYTES = 1024 * 1024
_FIRST_FILLER = 100
"""A tag that no release of Kafka uses in these responses; the receiver ignores it."""


class Addresses:
    """The gateway's address for each address that brokers advertise.

    Where brokers advertise the gateway's addresses themselves, the two are the same.
    """

    def __init__(self, by_advertised: Mapping[Address, Address]) -> None:
        self._by_advertised = dict(by_advertised)
        self.rewritten = any(advertised != own for advertised, own in by_advertised.items())
        """Whether responses are rewritten."""

    def add(self, advertised: Address, own: Address) -> None:
        """Add a broker that has joined, and the gateway's address for it, in place of the broker that had it before."""
        left = {broker: address for broker, address in self._by_advertised.items() if address != own}
        self._by_advertised = {**left, advertised: own}
        self.rewritten = self.rewritten or advertised != own

    def own(self, advertised: Address) -> Address | None:
        """Return the gateway's address for a broker; None if it has none."""
        return self._by_advertised.get(advertised)

    @property
    def advertised(self) -> list[Address]:
        """The addresses that brokers may advertise."""
        return list(self._by_advertised)

    def foreign(self, advertised: Iterable[Address]) -> list[Address]:
        """Return the addresses that bypass the gateway."""
        return [address for address in advertised if address not in self._by_advertised]

    def names_leaders(self, key: int, version: int) -> bool:
        """Return whether responses name leaders, whose addresses are to be replaced."""
        first = _NAMING_LEADERS.get(key)  # type: ignore[call-overload]
        return self.rewritten and first is not None and version >= first

    def replaced(self, brokers: list[Message]) -> tuple[list[Message], list[Address]]:
        """Return brokers with the gateway's addresses, and the addresses of those left out.

        Those that are not known are left out, so that clients wait for these brokers as for brokers that are down.
        """
        foreign = self.foreign((broker["host"], broker["port"]) for broker in brokers)
        if not (self.rewritten or foreign):
            return brokers, foreign
        kept = []
        for broker in brokers:
            own = self.own((broker["host"], broker["port"]))
            if own is not None:
                kept.append({**broker, "host": own[0], "port": own[1]})
        return kept, foreign

    def replace_coordinators(self, response: Message) -> tuple[bool, list[Address]]:
        """Replace the addresses in a FindCoordinator response; return whether it changed, and the removed addresses."""
        changed, foreign = False, []
        for coordinator in response.get("coordinators", [response]):
            advertised = coordinator.get("host", ""), coordinator.get("port", -1)
            if coordinator["errorCode"] or (not self.rewritten and advertised in self._by_advertised):
                continue
            changed = True
            own = self.own(advertised)
            if own is not None:
                coordinator |= {"host": own[0], "port": own[1]}
            else:
                foreign.append(advertised)
                coordinator |= {**_NO_NODE, "errorCode": int(ErrorCode.COORDINATOR_NOT_AVAILABLE)}
        return changed, foreign


class LargeLeadersResponse:
    """A large response that names leaders, which is passed on as it arrives, without their addresses."""

    def __init__(self, plan: Plan, codec: MessageCodec, length: int) -> None:
        """Take the plan of the message up to its addresses, the codec of the rest, and the length of the response."""
        self._left = _LENGTH_BYTES + length
        self._walk = Walk([_LENGTH_BYTES + _CORRELATION_ID_BYTES, skip_tags, *plan], self._left)
        self._codec = codec
        self._tail: bytes | None = None

    def feed(self, data: bytes) -> bytes:
        """Take the next bytes, which begin with the length; return those for the client, in the end as many."""
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
    if not message[ENDPOINTS]:
        return tail
    removed: Message = {**message, ENDPOINTS: []}
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
