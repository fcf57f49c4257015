"""How all tenants stand, as far as there is room for them."""

from jobs.metrics.counts import Asked
from jobs.metrics.tenants import Standing
from quota.algorithms.bucket import Window
from quota.records.decision import Decision

_EXPIRES_MS = 3_600_000
"""A tenant that was not heard of for so long is dropped, as Kafka's sensors are."""

_Key = tuple[str, str, tuple[tuple[str, str], ...]]


class Standings:
    """Tenants by their tags. Anyone can make up client-ids, so there is a bound to how many are kept."""

    def __init__(self, window: Window, most: int) -> None:
        """Keep none yet.

        Args:
            window: S and W.
            most: twice as many are kept at most; when there are more, all but so many of the busiest are forgotten.
        """
        self._window = window
        self._most = most
        self._kept: dict[_Key, Standing] = {}
        self.forgotten = 0
        """How many were active still and had to go, ever."""

    def hear(self, decision: Decision, asked: Asked) -> Standing:
        """Take note of a decision, and say whose it is."""
        key = (decision.user_tag, decision.client_tag, tuple(sorted(decision.more_tags.items())))
        standing = self._kept.get(key)
        if standing is None:
            if len(self._kept) >= 2 * self._most:
                self._make_room(decision.timestamp)
            standing = self._kept[key] = Standing(decision, self._window)
        standing.hear(decision, asked)
        return standing

    @property
    def kept(self) -> list[Standing]:
        """Those that are kept, in the order in which they were first heard of."""
        return list(self._kept.values())

    def busiest(self, now: int) -> list[Standing]:
        """Those that have a quota and were heard of in the hour before `now` (epoch ms).

        Who asks for the most mutations a second comes first, then who was heard of last.
        """
        active = [each for each in self._kept.values() if each.is_limited and _is_active(each, now)]
        return sorted(active, key=lambda each: _idleness(each, now))

    def _make_room(self, now: int) -> None:
        active = [(key, each) for key, each in self._kept.items() if _is_active(each, now)]
        active.sort(key=lambda pair: _idleness(pair[1], now))
        self._kept = dict(active[: self._most])
        self.forgotten += max(0, len(active) - self._most)


def _is_active(standing: Standing, now: int) -> bool:
    return now - standing.last.timestamp < _EXPIRES_MS


def _idleness(standing: Standing, now: int) -> tuple[float, int]:
    return -standing.asked.measure(now), -standing.last.timestamp
