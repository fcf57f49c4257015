"""The busy and muted channels (KIP-219): muted one by one, or all of one user and client-id together."""

from collections import defaultdict
from collections.abc import Hashable, Iterator
from typing import Literal

from quota.client.channel_muter import ChannelMuter

Client = tuple[str, str | None]
"""User and client-id."""


class Mutes:
    """The mutes of a gateway's channels. Times are ms of one monotonic clock.

    A channel holds back at most one request; beyond a bound, its connection is not read.
    """

    def __init__(self, by: Literal["connection", "client"] = "connection") -> None:
        """Mute as a broker does, by `connection`, or all connections of a `client` (user and client-id)."""
        self._muter: ChannelMuter[Hashable, None] = ChannelMuter(max_held=1)
        self._by_client = by == "client"
        self._channels: defaultdict[Client, set[Hashable]] = defaultdict(set)
        self._until: dict[Client, int] = {}

    def join(self, channel: Hashable, client: Client, now: int) -> None:
        """Register the client of a channel, once; a mute of the client also applies to this channel."""
        if self._by_client:
            self._channels[client].add(channel)
            self._muter.mute(channel, max(self._until.get(client, now) - now, 0), now)

    def offer(self, channel: Hashable, now: int) -> bool:
        """Return whether the channel's next request may begin now; if not, it is due later."""
        return self._muter.offer(channel, None, now)

    def answered(self, channel: Hashable, client: Client | None, throttle_time_ms: int, now: int) -> None:
        """End the channel's request, which was answered at `now`, and mute it from then on."""
        if throttle_time_ms and self._by_client and client is not None:
            self._until[client] = max(self._until.get(client, now), now + throttle_time_ms)
            for each in self._channels[client] - {channel}:
                self._muter.mute(each, throttle_time_ms, now)
        self._muter.answered(channel, throttle_time_ms, now)

    def due(self, now: int) -> Iterator[Hashable]:
        """Yield the channels whose request may begin now."""
        for channel, _ in self._muter.due(now):
            yield channel

    def next_at(self) -> int | None:
        """Return the time to call `due` next, or None."""
        return self._muter.next_at()

    def muted(self, channel: Hashable, now: int) -> bool:
        """Return whether a channel is muted."""
        return self._muter.muted_until(channel, now) is not None

    def close(self, channel: Hashable, client: Client | None, now: int) -> None:
        """Forget a channel whose client has disconnected; a client's mute is kept for its next connections."""
        self._muter.close(channel)
        if self._by_client and client is not None:
            self._channels[client].discard(channel)
            if not self._channels[client]:
                del self._channels[client]
            self._until = {each: until for each, until in self._until.items() if until > now}
