"""The quotas in time: which quota held for whom, as of any moment."""

import heapq
from bisect import bisect_right, insort
from collections.abc import Iterator
from typing import NamedTuple

from quota.bucket import Limit
from quota.change import SINCE_EVER, QuotaChange
from quota.entity import NO_TAGS, QuotaEntity, Tags, levels

_FOREVER = 2**63
_CACHED = 100_000  # resolutions kept between two changes; a few hundred bytes each


class Resolution(NamedTuple):
    """The quota that a request is judged by: its limit, the entity it is set for, and the tags of its bucket.

    Where no quota matches, `limit` and `entity` are None and the request is unlimited.
    """

    tags: Tags
    limit: Limit | None
    entity: QuotaEntity | None


UNLIMITED = Resolution(NO_TAGS, None, None)


class _Moment(NamedTuple):
    moment: int
    order: int
    rate: float | None


class QuotaTimeline:
    """All changes of the quota log, to be asked as of a timestamp.

    A look-up costs the same however many quotas are set.
    """

    def __init__(self) -> None:
        self._changes: dict[QuotaEntity, list[_Moment]] = {}
        self._moments: list[int] = []
        self._cache: dict[tuple[str, str], tuple[int, int, Resolution]] = {}

    def add(self, change: QuotaChange) -> None:
        """Add a change; of two changes at one moment the one added later wins."""
        insort(self._changes.setdefault(change.entity, []), _Moment(change.moment, len(self._moments), change.rate))
        insort(self._moments, change.moment)
        self._cache.clear()

    def configured(self, at: int) -> list[QuotaChange]:
        """The quotas that are set as of `at` (epoch ms), each with the change that set it, in a stable order."""
        latest = (
            QuotaChange(entity, changes[after - 1].rate, changes[after - 1].moment)
            for entity, changes in self._changes.items()
            if (after := _changes_until(changes, at))
        )
        return sorted((change for change in latest if change.rate is not None), key=lambda change: change.entity.key)

    def resolve(self, user: str, client_id: str, at: int) -> Resolution:
        """The quota of a request with this user and client-id, as of `at` (epoch ms)."""
        cached = self._cache.get((user, client_id))
        if cached is not None and cached[0] <= at < cached[1]:
            return cached[2]
        resolution = self._resolve(user, client_id, at)
        if len(self._cache) >= _CACHED:
            self._cache.clear()
        self._cache[user, client_id] = (*self._span(at), resolution)
        return resolution

    def _resolve(self, user: str, client_id: str, at: int) -> Resolution:
        candidates = levels(user, client_id)
        for entity, tags in candidates:
            rate = self._rate(entity, at)
            if rate is not None:
                sharing = [entity for entity, shared in candidates if shared == tags]
                return Resolution(tags, Limit(rate, self._since(sharing, rate, at)), entity)
        return UNLIMITED

    def _rate(self, entity: QuotaEntity, at: int) -> float | None:
        changes = self._changes.get(entity)
        if changes is None:
            return None
        after = _changes_until(changes, at)
        return changes[after - 1].rate if after else None

    def _since(self, levels_of_bucket: list[QuotaEntity], rate: float, at: int) -> int:
        """The moment since which a bucket has had this rate, whichever of its levels gave it."""
        since = at
        backwards = (_backwards(self._changes.get(entity, []), at) for entity in levels_of_bucket)
        for moment in heapq.merge(*backwards, reverse=True):
            rates = (self._rate(entity, moment) for entity in levels_of_bucket)
            if next((earlier for earlier in rates if earlier is not None), None) != rate:
                break
            since = moment
        return since

    def _span(self, at: int) -> tuple[int, int]:
        """The time around `at` in which nothing changes, the end not included."""
        after = bisect_right(self._moments, at)
        return (
            self._moments[after - 1] if after else SINCE_EVER,
            self._moments[after] if after < len(self._moments) else _FOREVER,
        )


def _changes_until(changes: list[_Moment], at: int) -> int:
    return bisect_right(changes, at, key=lambda change: change.moment)


def _backwards(changes: list[_Moment], at: int) -> Iterator[int]:
    """The moments of changes up to `at`, the latest first."""
    return (changes[index].moment for index in range(_changes_until(changes, at) - 1, -1, -1))
