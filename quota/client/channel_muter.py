"""Muting of throttled channels (KIP-219), for a gateway between clients and the request topic.

A response is sent at once with its throttle time, to strict and permissive clients alike. Its channel is then muted
until that time has passed: requests that the client sends before that are held.

Times are milliseconds of the gateway's own clock, which the caller passes as `now`. Use a monotonic clock: setting a
wall clock would lengthen or shorten every mute.
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
    """A channel holds its maximum of requests; the offered request was not accepted."""


@dataclass(slots=True, eq=False)
class _Channel(Generic[R]):
    """A channel that is busy, muted or holding requests. Unless busy, it has one alarm, for the end of its mute."""

    muted_until: int
    busy: bool = False
    alarm: int | None = None
    held: deque[R] = field(default_factory=deque)

    def start_request(self) -> None:
        self.busy, self.alarm = True, None


class ChannelMuter(Generic[C, R]):
    """The muted channels, and the requests held for them, in order.

    A channel is any hashable value that identifies one connection. It must not be reused for another connection while a
    response to the first is outstanding. As in Kafka's broker, a channel has one request in flight: it is busy from the
    time at which a request is forwarded until `answered` is called, because the response may mute it. A channel that is
    neither busy nor muted nor holding requests is forgotten.

    A gateway forwards the requests that `offer` accepts and that `due` returns, calls `due` again at `next_at`, and
    stops reading from a channel that `is_full` until `due` returns one of its requests.

    Not thread-safe.
    """

    def __init__(self, max_held: int = 16) -> None:
        """Hold up to `max_held` requests of a channel, at least 1: a channel that holds none would never be due."""
        if max_held < 1:
            raise ValueError(f"max_held must be at least 1, not {max_held}")
        self._max_held = max_held
        self._channels: dict[C, _Channel[R]] = {}
        self._alarms: list[tuple[int, int, C]] = []  # a heap of (time, number, channel), like Kafka's delay queue
        self._numbers = itertools.count()

    def __len__(self) -> int:
        """Return the number of channels that are busy, muted or holding requests."""
        return len(self._channels)

    def offer(self, channel: C, request: R, now: int) -> bool:
        """Return whether to pass a request on now, which makes its channel busy. Otherwise the request is held.

        Raises:
            ChannelFull: the channel holds its maximum. (Kafka's broker does not read from a muted channel at all.)
        """
        known = self._channels.get(channel)
        if known is None:
            known = self._channels[channel] = _Channel(now)
        if not (known.busy or known.held or known.muted_until > now):  # after those held, even if the mute is over
            known.start_request()
            return True
        if self.is_full(channel):
            raise ChannelFull(
                f"channel {channel!r} holds {self._max_held} requests: read from it again when one of them is due"
            )
        known.held.append(request)
        return False

    def answered(self, channel: C, throttle_time_ms: int, now: int) -> None:
        """End the request in flight, which was answered at `now`, and mute its channel.

        Call this once for each forwarded request, with the throttle time of its decision, or with 0 for a dead letter
        or a failed send; not again for a copy of the decision. The throttle time starts at `now`, not at the
        decision's time: its `retry_at` is by the broker's clock. An answer to a closed channel is ignored.
        """
        known = self._channels.get(channel)
        if known is not None and known.busy:
            known.busy = False
            self.mute(channel, throttle_time_ms, now)

    def mute(self, channel: C, throttle_time_ms: int, now: int) -> None:
        """Mute a channel for `throttle_time_ms` from `now`, or until its current mute ends if that is later."""
        known = self._channels.setdefault(channel, _Channel(now))
        known.muted_until = max(known.muted_until, now + throttle_time_ms)
        if known.busy:
            return  # its answer sets the alarm
        if known.held or known.muted_until > now:
            self._set_alarm(channel, known)
        else:
            del self._channels[channel]

    def muted_until(self, channel: C, now: int) -> int | None:
        """Return the time at which the channel's mute ends, or None if it is not muted."""
        known = self._channels.get(channel)
        return known.muted_until if known is not None and known.muted_until > now else None

    def is_full(self, channel: C) -> bool:
        """Return whether the channel holds its maximum and must not be read from."""
        known = self._channels.get(channel)
        return known is not None and len(known.held) >= self._max_held

    def due(self, now: int) -> Iterator[tuple[C, R]]:
        """Yield the requests to forward now: the first one held for each channel whose mute is over.

        Each request is removed, and its channel becomes busy, when the iterator reaches it. Other methods may be
        called in between.
        """
        while (at := self.next_at()) is not None and at <= now:
            _, _, channel = heapq.heappop(self._alarms)
            known = self._channels[channel]
            if known.held:
                known.start_request()
                yield channel, known.held.popleft()
            else:
                del self._channels[channel]

    def next_at(self) -> int | None:
        """Return the time to call `due` next, when the first mute ends; it may be past. None if there is none."""
        while self._alarms and self._is_void(self._alarms[0]):
            heapq.heappop(self._alarms)
        return self._alarms[0][0] if self._alarms else None

    def close(self, channel: C) -> list[R]:
        """Forget a channel whose client has disconnected, and return the requests it held, in order.

        As in Kafka, this ends its mute; a client that reconnects finds its bucket still in debt.
        """
        known = self._channels.pop(channel, None)
        return list(known.held) if known is not None else []

    def _set_alarm(self, channel: C, known: _Channel[R]) -> None:
        """Set a channel's alarm, which voids its earlier one. Void alarms are removed once they are the majority."""
        known.alarm = next(self._numbers)
        heapq.heappush(self._alarms, (known.muted_until, known.alarm, channel))
        if len(self._alarms) > 2 * len(self._channels):
            self._alarms = [alarm for alarm in self._alarms if not self._is_void(alarm)]
            heapq.heapify(self._alarms)

    def _is_void(self, alarm: tuple[int, int, C]) -> bool:
        known = self._channels.get(alarm[2])
        return known is None or known.alarm != alarm[1]
