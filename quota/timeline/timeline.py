"""The timeline of quotas: the quota of each entity and request, at any time."""

import heapq
from bisect import bisect_right, insort
from itertools import combinations

import msgspec

from quota.records.entity import QuotaEntity, Tags
from quota.records.levels import UNLIMITED, Limit, Resolution, levels
from quota.records.quota_log import Quota
from quota.records.record import BEGINNING
from quota.timeline.change import BucketReset, Change, EffectiveChanges, QuotaCancellation, QuotaChange

_END = 2**63
_MAX_CACHED = 100_000  # resolutions, of a few hundred bytes each; a change empties the cache

MAX_CACHED_NAME = 1024
"""Longer names, which may be megabytes, are not cached [characters]."""


class Level(msgspec.Struct, frozen=True):
    """One of the eight levels of quotas (KIP-257) at a given time."""

    level: int
    """The number of the level; 1 is the most specific."""
    entity: QuotaEntity
    """The entity of the level."""
    quota: Quota | None = None
    """The entity's quota; null for none."""
    since: int | None = None
    """The time from which the quota has been in force, epoch ms; null for none."""


def forget_moments(moments: list[int], before: int) -> None:
    """Remove the times from a sorted list that are followed by another one before a time (epoch ms)."""
    del moments[: max(bisect_right(moments, before) - 1, 0)]


class QuotaTimeline:
    """The changes of the quota log, in the order of their times.

    The cost of a lookup does not depend on the number of quotas.
    """

    def __init__(self) -> None:
        self._versions: dict[QuotaEntity, EffectiveChanges[QuotaChange]] = {}
        self._resets: dict[frozenset[tuple[str, str]], list[int]] = {}
        self._moments: list[int] = []
        self._cache: dict[tuple[str, str], tuple[int, int, Resolution]] = {}

    def add(self, change: Change) -> None:
        """Add a change; the later of two at the same time wins. Changes of callbacks and clusters are ignored."""
        match change:
            case QuotaChange(entity):
                if entity not in self._versions:
                    self._versions[entity] = EffectiveChanges(QuotaChange.after)
                self._versions[entity].add(change)
            case BucketReset(tags, moment):
                insort(self._resets.setdefault(frozenset(tags.items()), []), moment)
            case QuotaCancellation(entity, moment, late=False):
                if versions := self._versions.get(entity):
                    versions.cancel(moment)
            case _:
                return
        insort(self._moments, change.moment)
        self._cache.clear()

    def forget(self, before: int) -> None:
        """Forget what was replaced before a time (epoch ms): quotas, changes and resets as of earlier times."""
        for versions in self._versions.values():
            versions.forget(before)
        for moments in (self._moments, *self._resets.values()):
            forget_moments(moments, before)

    def add_quota(self, change: QuotaChange | QuotaCancellation) -> tuple[Quota | None, Quota | None]:
        """Add a change of a quota; return the entity's quota at its time before it was added, and after."""
        before = self.quota(change.entity, change.moment)
        self.add(change)
        return before, self.quota(change.entity, change.moment)

    def configured(self, at: int) -> list[QuotaChange]:
        """Return the changes that set the quotas in force as of `at` (epoch ms), in a stable order."""
        return [change for change in self.known(at) if change.quota]

    def known(self, at: int) -> list[QuotaChange]:
        """Return the latest change of each entity as of `at` (epoch ms), removals among them, in a stable order."""
        latest = (versions.latest(at) for versions in self._versions.values())
        return sorted((change for change in latest if change), key=lambda change: change.entity.key)

    def scheduled(self, after: int) -> list[QuotaChange]:
        """Return the changes that take effect later than `after` (epoch ms), in the order of their times."""
        later = (change for versions in self._versions.values() for change in versions.scheduled(after))
        return sorted(later, key=lambda change: (change.moment, change.entity.key))

    def scheduled_resets(self, after: int) -> list[BucketReset]:
        """Return the resets that take effect later than `after` (epoch ms)."""
        later = ((tags, moment) for tags, moments in self._resets.items() for moment in moments if moment > after)
        return [BucketReset(dict(sorted(tags)), moment) for tags, moment in later]

    def latest(self, entity: QuotaEntity, at: int) -> QuotaChange | None:
        """Return the latest change of an entity as of `at` (epoch ms)."""
        versions = self._versions.get(entity)
        return versions.latest(at) if versions else None

    def quota(self, entity: QuotaEntity, at: int) -> Quota | None:
        """Return the quota of an entity as of `at` (epoch ms)."""
        latest = self.latest(entity, at)
        return latest.quota if latest else None

    def levels(self, user: str, client_id: str, at: int) -> list[Level]:
        """Return the eight levels of a request as of `at` (epoch ms); the first one with a quota wins."""
        latest = ((entity, self.latest(entity, at)) for entity, _ in levels(user, client_id))
        return [
            Level(number, entity, change.quota, change.moment) if change and change.quota else Level(number, entity)
            for number, (entity, change) in enumerate(latest, start=1)
        ]

    def resolve(self, user: str, client_id: str, at: int) -> Resolution:
        """Return the quota of a request with this user and client-id, as of `at` (epoch ms)."""
        cached = self._cache.get((user, client_id))
        if cached is not None and cached[0] <= at < cached[1]:
            return cached[2]
        resolution = self._resolve(user, client_id, at)
        if len(self._cache) >= _MAX_CACHED:
            self._cache.clear()
        if len(user) + len(client_id) <= MAX_CACHED_NAME:
            self._cache[user, client_id] = (*self._span(at), resolution)
        return resolution

    def _resolve(self, user: str, client_id: str, at: int) -> Resolution:
        candidates = levels(user, client_id)
        for entity, tags in candidates:
            quota = self.quota(entity, at)
            if quota is not None:
                sharing = [entity for entity, shared in candidates if shared == tags]
                limit = Limit(quota, self._since(sharing, quota, at))
                return Resolution(tags, limit, entity, self.reset_at(tags, at), quota.shadow)
        return UNLIMITED

    def reset_at(self, tags: Tags, at: int) -> int | None:
        """Return the latest reset (epoch ms) of a bucket as of `at`: one whose tags are all among the bucket's."""
        if not self._resets:
            return None
        items = tags.items()
        latest = (
            moments[count - 1]
            for size in range(1, len(items) + 1)
            for subset in combinations(items, size)
            if (moments := self._resets.get(frozenset(subset))) and (count := bisect_right(moments, at))
        )
        return max(latest, default=None)

    def _since(self, sharing: list[QuotaEntity], quota: Quota, at: int) -> int:
        """Return the time (epoch ms) since which a bucket has had the bounds of this quota."""
        since = at
        moments = (
            (version.moment for version in reversed(versions.all) if version.moment <= at)
            for entity in sharing
            if (versions := self._versions.get(entity))
        )
        for moment in heapq.merge(*moments, reverse=True):
            quotas = (self.quota(entity, moment) for entity in sharing)
            earlier = next((held for held in quotas if held is not None), None)
            if earlier is None or earlier.bounds != quota.bounds:
                break
            since = moment
        return since

    def _span(self, at: int) -> tuple[int, int]:
        """Return the span around `at` without a change (epoch ms), its end excluded."""
        count = bisect_right(self._moments, at)
        return (
            self._moments[count - 1] if count else BEGINNING,
            self._moments[count] if count < len(self._moments) else _END,
        )
