"""KIP-219 at a gateway between clients and the request topic: a throttled channel is muted, not left waiting.

A response goes out at once with its throttle time, to strict and permissive clients alike, and
its channel is muted until that time has passed: what the client sends meanwhile is held back.

Units: times in milliseconds of the gateway's own clock, which the caller reads and passes as
`now`; best a monotonic one, as a clock that is set back or forth stretches or cuts every mute.
"""

import heapq
import itertools
from collections import deque
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from quota.errors import MutationQuotaError

C = TypeVar("C", bound=Hashable)
R = TypeVar("R")


class ChannelFull(MutationQuotaError):
    """A channel holds all it may; the request it was offered was not taken."""


@dataclass(slots=True, eq=False)
class _Channel(Generic[R]):
    """One that is busy, muted or holding. Unless it is busy, one alarm is set for the end of its mute."""

    muted_until: int
    busy: bool = False
    alarm: int | None = None
    held: deque[R] = field(default_factory=deque)

    def pass_on(self) -> None:
        self.busy, self.alarm = True, None


class ChannelMuter(Generic[C, R]):
    """Which channels are muted until when, and what they hold meanwhile, in order.

    A channel is anything hashable that stands for one connection, and is not used for another
    one while an answer to the first is under way. As in Kafka's broker it has one request in
    flight: from the moment that one was passed on it is busy until `answered`, since the answer
    may mute it. A channel that is neither busy nor muted nor holds anything is forgotten.

    A gateway passes on what `offer` lets through and what `due` gives out, comes back for `due`
    at `next_at`, and stops reading from a channel that `is_full` until `due` gives one of its requests out.

    Not thread-safe: one loop owns it.
    """

    def __init__(self, max_held: int = 16) -> None:
        """Hold at most `max_held` requests of a channel, at least 1: one that holds nothing would never be due."""
        if max_held < 1:
            raise ValueError(f"max_held must be at least 1, not {max_held}")
        self._max_held = max_held
        self._channels: dict[C, _Channel[R]] = {}
        self._alarms: list[tuple[int, int, C]] = []  # a heap of (time, number, channel), as Kafka's delay queue
        self._numbers = itertools.count()

    def __len__(self) -> int:
        """How many channels are remembered: those that are busy, muted or holding."""
        return len(self._channels)

    def offer(self, channel: C, request: R, now: int) -> bool:
        """Whether to pass a request on now, which makes its channel busy; otherwise it is held.

        Raises:
            ChannelFull: the channel holds all it may. Kafka's broker does not read on from a muted one at all.
        """
        known = self._channels.get(channel)
        if known is None:
            known = self._channels[channel] = _Channel(now)
        if not (known.busy or known.held or known.muted_until > now):  # behind what is held, even when its time is over
            known.pass_on()
            return True
        if self.is_full(channel):
            raise ChannelFull(f"channel {channel!r} holds {self._max_held} requests: read on when one of them is due")
        known.held.append(request)
        return False

    def answered(self, channel: C, throttle_time_ms: int, now: int) -> None:
        """The request in flight was answered at `now`, and its channel is muted as the decision says.

        To be called once for each request that was passed on, also where the answer is a dead letter or
        sending failed (then with 0), and not again for the second copy of a decision. The time counts
        from `now` and not to `retry_at`, which is a time of the broker's clock. An answer to a
        channel that was closed is ignored.
        """
        known = self._channels.get(channel)
        if known is not None and known.busy:
            known.busy = False
            self.mute(channel, throttle_time_ms, now)

    def mute(self, channel: C, throttle_time_ms: int, now: int) -> None:
        """Mute a channel for a time from `now` on, or for longer if it was told so before."""
        known = self._channels.setdefault(channel, _Channel(now))
        known.muted_until = max(known.muted_until, now + throttle_time_ms)
        if known.busy:
            return  # what comes next is up to its answer
        if known.held or known.muted_until > now:
            self._set_alarm(channel, known)
        else:
            del self._channels[channel]

    def muted_until(self, channel: C, now: int) -> int | None:
        """When the channel's mute ends, or None if it is not muted."""
        known = self._channels.get(channel)
        return known.muted_until if known is not None and known.muted_until > now else None

    def is_full(self, channel: C) -> bool:
        """Whether the channel holds all it may, and is not to be read from."""
        known = self._channels.get(channel)
        return known is not None and len(known.held) >= self._max_held

    def due(self, now: int) -> Iterator[tuple[C, R]]:
        """The requests to pass on now: the first one held of each channel whose mute is over.

        Each is taken out as the iterator comes to it, and its channel is busy from then on.
        Other methods may be called in between.
        """
        while (at := self.next_at()) is not None and at <= now:
            _, _, channel = heapq.heappop(self._alarms)
            known = self._channels[channel]
            if known.held:
                known.pass_on()
                yield channel, known.held.popleft()
            else:
                del self._channels[channel]

    def next_at(self) -> int | None:
        """When to call `due` next: the end of the mute that ends first, which may be over; None while there is none."""
        while self._alarms and self._is_void(self._alarms[0]):
            heapq.heappop(self._alarms)
        return self._alarms[0][0] if self._alarms else None

    def close(self, channel: C) -> list[R]:
        """Forget a channel whose client has gone; gives back what it held, in order, which is not passed on any more.

        As in Kafka, its mute goes with it: a client that connects again finds its bucket still in debt.
        """
        known = self._channels.pop(channel, None)
        return list(known.held) if known is not None else []

    def _set_alarm(self, channel: C, known: _Channel[R]) -> None:
        """An earlier alarm becomes void where it lies; once the void ones are the most, they are dropped."""
        known.alarm = next(self._numbers)
        heapq.heappush(self._alarms, (known.muted_until, known.alarm, channel))
        if len(self._alarms) > 2 * len(self._channels):
            self._alarms = [alarm for alarm in self._alarms if not self._is_void(alarm)]
            heapq.heapify(self._alarms)

    def _is_void(self, alarm: tuple[int, int, C]) -> bool:
        known = self._channels.get(alarm[2])
        return known is None or known.alarm != alarm[1]
