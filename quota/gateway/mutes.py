"""The busy and muted channels of a gateway (KIP-219).

A response is sent at once with its throttle time, to strict and permissive clients alike. Its channel is then muted
until that time has passed: a request that the client sends before that is held.
"""

import heapq
import itertools
from collections.abc import Hashable, Iterator
from dataclasses import dataclass


@dataclass(slots=True, eq=False)
class _Channel:
    """A channel that is busy, muted or holds a request. Unless busy, it has one alarm, for the end of its mute."""

    muted_until: int
    busy: bool = True
    holds: bool = False
    alarm: int | None = None

    def start_request(self) -> None:
        self.busy, self.holds, self.alarm = True, False, None


class Mutes:
    """The mutes of a gateway's channels. Times are ms of one monotonic clock: setting it would change every mute.

    A channel is any hashable value that identifies one connection. As in Kafka's broker, it has one request in flight,
    because the response may mute it, and it holds back at most one more; beyond that, its connection is not read
    (`quota.gateway.channel`, `jobs.gateway.connection`). A channel that is neither busy nor muted nor holding a request
    is forgotten. As in Kafka, a mute ends with the connection; a client that reconnects finds its bucket still in debt.

    Not thread-safe.
    """

    def __init__(self) -> None:
        self._channels: dict[Hashable, _Channel] = {}
        self._alarms: list[tuple[int, int, Hashable]] = []  # a heap of (time, number, channel), as Kafka's delay queue
        self._numbers = itertools.count()

    def __len__(self) -> int:
        """Return the number of channels that are busy, muted or holding a request."""
        return len(self._channels)

    def offer(self, channel: Hashable, now: int) -> bool:
        """Return whether the channel's next request may begin now, which makes it busy; if not, it is due later."""
        known = self._channels.get(channel)
        if known is None:
            self._channels[channel] = _Channel(now)
            return True
        if known.busy or known.holds or known.muted_until > now:
            known.holds = True
            return False
        known.start_request()
        return True

    def answered(self, channel: Hashable, throttle_time_ms: int, now: int) -> None:
        """End the request in flight, which was answered at `now`, and mute the channel from then on.

        The throttle time starts at `now`, not at the decision's time: its `retry_at` is by the broker's clock. An
        answer to a closed channel is ignored.
        """
        known = self._channels.get(channel)
        if known is None or not known.busy:
            return
        if not (known.holds or throttle_time_ms):
            del self._channels[channel]
            return
        known.busy, known.muted_until, known.alarm = False, now + throttle_time_ms, next(self._numbers)
        heapq.heappush(self._alarms, (known.muted_until, known.alarm, channel))
        if len(self._alarms) > 2 * len(self._channels):  # most alarms are void
            self._alarms = [alarm for alarm in self._alarms if not self._is_void(alarm)]
            heapq.heapify(self._alarms)

    def due(self, now: int) -> Iterator[Hashable]:
        """Yield the channels whose held request may begin now.

        A channel becomes busy when the iterator reaches it. Other methods may be called in between.
        """
        while (at := self.next_at()) is not None and at <= now:
            _, _, channel = heapq.heappop(self._alarms)
            known = self._channels[channel]
            if known.holds:
                known.start_request()
                yield channel
            else:
                del self._channels[channel]

    def next_at(self) -> int | None:
        """Return the time to call `due` next, when the first mute ends; it may be past. None if there is none."""
        while self._alarms and self._is_void(self._alarms[0]):
            heapq.heappop(self._alarms)
        return self._alarms[0][0] if self._alarms else None

    def muted(self, channel: Hashable, now: int) -> bool:
        """Return whether a channel is muted."""
        known = self._channels.get(channel)
        return known is not None and known.muted_until > now

    def close(self, channel: Hashable) -> None:
        """Forget a channel whose client has disconnected."""
        self._channels.pop(channel, None)

    def _is_void(self, alarm: tuple[int, int, Hashable]) -> bool:
        known = self._channels.get(alarm[2])
        return known is None or known.alarm != alarm[1]
