"""The quotas in time: which quota held for whom, as of any moment."""

import heapq
from bisect import bisect_right, insort
from collections.abc import Iterator
from itertools import combinations
from typing import NamedTuple

from quota.records.entity import QuotaEntity, Tags, levels
from quota.records.fields import SINCE_EVER
from quota.records.quota import Limit, Quota
from quota.timeline.change import BucketReset, Cancellation, Change, QuotaChange
from quota.timeline.resolution import UNLIMITED, Resolution

_FOREVER = 2**63
_CACHED = 100_000  # resolutions kept between two changes; a few hundred bytes each

CACHED_NAME = 1024
"""Characters; names may be megabytes, and are not kept then."""


class _Moment(NamedTuple):
    moment: int
    order: int
    quota: Quota | None


class Level(NamedTuple):
    """One of the eight levels as of a moment: the entity, its bucket, and the change that set its quota, if any."""

    entity: QuotaEntity
    tags: Tags
    change: QuotaChange | None


class QuotaTimeline:
    """All changes of the quota log, to be asked as of a timestamp.

    A look-up costs the same however many quotas are set.
    """

    def __init__(self) -> None:
        self._changes: dict[QuotaEntity, list[_Moment]] = {}
        self._resets: dict[frozenset[tuple[str, str]], list[int]] = {}
        self._moments: list[int] = []
        self._cache: dict[tuple[str, str], tuple[int, int, Resolution]] = {}

    def add(self, change: Change) -> None:
        """Add a change; of two changes at one moment the one added later wins. What concerns callbacks is no change."""
        match change:
            case QuotaChange(entity, moment=moment):
                quota = change.on(self.latest(entity, moment))
                insort(self._changes.setdefault(entity, []), _Moment(moment, len(self._moments), quota), key=_place)
            case BucketReset(tags, moment):
                insort(self._resets.setdefault(frozenset(tags.items()), []), moment)
            case Cancellation(entity, moment):
                kept = [each for each in self._changes.get(entity, []) if each.moment != moment]
                self._changes[entity] = kept
            case _:
                return
        insort(self._moments, change.moment)
        self._cache.clear()

    def configured(self, at: int) -> list[QuotaChange]:
        """The quotas that are set as of `at` (epoch ms), each with the change that set it, in a stable order."""
        found = (self.latest(entity, at) for entity in self._changes)
        return sorted((change for change in found if change and change.quota), key=lambda change: change.entity.key)

    def scheduled(self, after: int) -> list[QuotaChange]:
        """Changes that hold from a later moment on, in the order of their moments."""
        later = {
            (entity, each.moment): QuotaChange(entity, each.quota, each.moment)  # the later of two at one moment
            for entity, changes in self._changes.items()
            for each in changes[_changes_until(changes, after) :]
        }
        return sorted(later.values(), key=lambda change: (change.moment, change.entity.key))

    def latest(self, entity: QuotaEntity, at: int) -> QuotaChange | None:
        """The change of an entity that holds as of `at` (epoch ms)."""
        changes = self._changes.get(entity, [])
        after = _changes_until(changes, at)
        return QuotaChange(entity, changes[after - 1].quota, changes[after - 1].moment) if after else None

    def levels(self, user: str, client_id: str, at: int) -> list[Level]:
        """The eight levels for a request, the most specific first; the first that has a quota wins."""
        found = ((entity, tags, self.latest(entity, at)) for entity, tags in levels(user, client_id))
        return [Level(entity, tags, change if change and change.quota else None) for entity, tags, change in found]

    def resolve(self, user: str, client_id: str, at: int) -> Resolution:
        """The quota of a request with this user and client-id, as of `at` (epoch ms)."""
        cached = self._cache.get((user, client_id))
        if cached is not None and cached[0] <= at < cached[1]:
            return cached[2]
        resolution = self._resolve(user, client_id, at)
        if len(self._cache) >= _CACHED:
            self._cache.clear()
        if len(user) + len(client_id) <= CACHED_NAME:
            self._cache[user, client_id] = (*self._span(at), resolution)
        return resolution

    def _resolve(self, user: str, client_id: str, at: int) -> Resolution:
        candidates = levels(user, client_id)
        for entity, tags in candidates:
            quota = self._quota(entity, at)
            if quota is not None:
                sharing = [entity for entity, shared in candidates if shared == tags]
                limit = Limit(quota, self._since(sharing, quota, at))
                return Resolution(tags, limit, entity, self.reset_at(tags, at), quota.shadow)
        return UNLIMITED

    def reset_at(self, tags: Tags, at: int) -> int | None:
        """The latest reset of a bucket: any that names some of its tags, and no other."""
        if not self._resets:
            return None
        items = tags.items()
        resets = (
            resets[after - 1]
            for count in range(1, len(items) + 1)
            for some in combinations(items, count)
            if (resets := self._resets.get(frozenset(some))) and (after := bisect_right(resets, at))
        )
        return max(resets, default=None)

    def _quota(self, entity: QuotaEntity, at: int) -> Quota | None:
        changes = self._changes.get(entity)
        if changes is None:
            return None
        after = _changes_until(changes, at)
        return changes[after - 1].quota if after else None

    def _since(self, levels_of_bucket: list[QuotaEntity], quota: Quota, at: int) -> int:
        """The moment since which a bucket has had the bounds of this quota, whichever of its levels gave them."""
        since = at
        backwards = (_backwards(self._changes.get(entity, []), at) for entity in levels_of_bucket)
        for moment in heapq.merge(*backwards, reverse=True):
            quotas = (self._quota(entity, moment) for entity in levels_of_bucket)
            earlier = next((each for each in quotas if each is not None), None)
            if earlier is None or earlier.bounds != quota.bounds:
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


def _place(change: _Moment) -> tuple[int, int]:
    return change.moment, change.order


def _changes_until(changes: list[_Moment], at: int) -> int:
    return bisect_right(changes, at, key=lambda change: change.moment)


def _backwards(changes: list[_Moment], at: int) -> Iterator[int]:
    """The moments of changes up to `at`, the latest first."""
    return (changes[index].moment for index in range(_changes_until(changes, at) - 1, -1, -1))
