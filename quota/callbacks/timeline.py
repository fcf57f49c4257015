"""The timeline of quotas under callbacks: the quota of a request at any time, by the callback in force at that time."""

import zlib
from bisect import bisect_right, insort
from collections.abc import Iterable
from functools import partial
from operator import attrgetter
from typing import NamedTuple, Self

import msgspec

from quota.callbacks.instance import CallbackInstance
from quota.records import codec
from quota.records.entity import QuotaEntity
from quota.records.levels import Limit, Resolution, levels
from quota.records.quota_log import Callbacks, CallbackSetting, Cluster, QuotaLogEntry
from quota.records.record import BEGINNING
from quota.timeline.change import (
    BucketReset,
    CallbackCancellation,
    CallbackChange,
    Change,
    ClusterChange,
    EffectiveChanges,
    QuotaCancellation,
    QuotaChange,
    to_change,
)
from quota.timeline.timeline import QuotaTimeline, forget_moments

_cluster_decoder = msgspec.json.Decoder(Cluster)

_MAX_INSTANCES = 4  # at different positions, since a batch may reach back to before a change


class _Event(NamedTuple):
    """A change and its time; metadata of a cluster, of which there may be many megabytes, as compressed JSON."""

    moment: int
    change: Change | bytes


class CallbackTimeline:
    """The changes of the quota log, resolved by the callback in force at a given time.

    The eight levels, which are the default callback, are resolved without an instance. Any other callback has
    instances that receive all changes up to the time of a request, in the log's order. A request from before a
    change that all instances have received gets a new instance, which receives the changes up to that request.
    """

    def __init__(self, callbacks: Callbacks | None = None) -> None:
        self.timeline = QuotaTimeline()
        self._callbacks = callbacks or Callbacks()
        self._only_default = self._callbacks.only_default
        self._events: list[_Event] = []
        self._cluster_moments: list[int] = []
        self.settings = EffectiveChanges[CallbackChange](partial(CallbackChange.after, default=self._callbacks.setting))
        """The changes of the callback."""
        self._instances: list[CallbackInstance] = []  # the most recently used one is the last

    @classmethod
    def of(cls, entries: Iterable[QuotaLogEntry], callbacks: Callbacks | None = None) -> Self:
        """Return the timeline of entries of the quota log, in its order."""
        quotas = cls(callbacks)
        for entry in entries:
            quotas.add(to_change(entry.record, entry.timestamp))
        return quotas

    def add(self, change: Change) -> None:
        """Add a change; the later of two at the same time wins."""
        self.timeline.add(change)
        event = _Event(change.moment, change)
        match change:
            case BucketReset() | QuotaCancellation(late=True) | CallbackCancellation(late=True):
                return  # they do not concern callbacks
            case CallbackCancellation(moment):
                self._discard_after(_count_until(self._events, moment - 1))
                self._events = [
                    kept for kept in self._events if (kept.moment, type(kept.change)) != (moment, CallbackChange)
                ]
                self.settings.cancel(moment)
                return
            case CallbackChange():
                self.settings.add(change)
            case _ if self._only_default:
                return  # no instance will need it
            case ClusterChange(cluster, moment):
                insort(self._cluster_moments, moment)
                event = event._replace(change=zlib.compress(codec.encode(cluster)))
        position = _count_until(self._events, change.moment)
        self._events.insert(position, event)
        self._discard_after(position)

    def forget(self, before: int) -> None:
        """Forget what was replaced before a time (epoch ms), as compaction does with the records of the log."""
        self.timeline.forget(before)
        self.settings.forget(before)
        forget_moments(self._cluster_moments, before)
        count, last = _count_until(self._events, before), dict[object, _Event]()
        for event in self._events[:count]:
            subject = getattr(event.change, "entity", type(event.change))
            last.pop(subject, None)
            last[subject] = event
        if len(last) < count:
            self._events[:count] = last.values()
            self.close()  # new instances receive the events that are left

    def resolve(self, user: str, client_id: str, at: int) -> Resolution:
        """Return the quota of a request with this user and client-id, as of `at` (epoch ms)."""
        if self._only_default and not self.settings.all:
            return self.timeline.resolve(user, client_id, at)
        instance = self._instance(at)
        if instance is None:
            resolution = self.timeline.resolve(user, client_id, at)
            if resolution.limit is None:
                return resolution
            # Before, the bucket may have had another callback's limit.
            since = max(resolution.limit.since, self._class_since(at))
            return resolution._replace(limit=Limit(resolution.limit.quota, since))
        tags, quota, entity = instance.resolve(user, client_id)
        if quota is None:
            return Resolution(tags, None, None, callback=instance.class_name)
        limit = Limit(quota, self._since(user, client_id, entity, at))
        reset_at = self.timeline.reset_at(tags, at)
        return Resolution(tags, limit, entity, reset_at, quota.shadow, callback=instance.class_name)

    def callback(self, at: int) -> CallbackSetting:
        """Return the callback in force as of `at` (epoch ms)."""
        latest = self.settings.latest(at)
        return latest.setting if latest and latest.setting else self._callbacks.setting

    def metadata_at(self, at: int) -> int | None:
        """Return the time of the cluster's metadata as of `at` (epoch ms); None if there are none, or no callback."""
        count = bisect_right(self._cluster_moments, at)
        return self._cluster_moments[count - 1] if count else None

    def close(self) -> None:
        """Close all instances."""
        for instance in list(self._instances):
            self._discard(instance)

    def _since(self, user: str, client_id: str, entity: QuotaEntity | None, at: int) -> int:
        """Return the time (epoch ms) since which a limit is surely unchanged; only the callback knows earlier limits.

        That is the latest change that the limit can depend on: of the cluster, of the callback, and of the quotas
        that concern the request, or of any quota where the callback does not name the entity.
        """
        if entity is None:
            position = _count_until(self._events, at)
            return self._events[position - 1].moment if position else BEGINNING
        entities = {entity, *(level for level, _ in levels(user, client_id))}
        changes = (self.timeline.latest(level, at) for level in entities)
        moments = [change.moment for change in changes if change]
        published_at, setting = self.metadata_at(at), self.settings.latest(at)
        moments += [] if published_at is None else [published_at]
        moments += [setting.moment] if setting else []
        return max(moments, default=BEGINNING)

    def _discard_after(self, position: int) -> None:
        """Discard the instances that have received more than the first `position` events."""
        for later in [instance for instance in self._instances if instance.position > position]:
            self._discard(later)

    def _instance(self, at: int) -> CallbackInstance | None:
        """Return the instance in force as of `at` (epoch ms), with all changes up to then; None for the default."""
        position = _count_until(self._events, at)
        if self._instances and self._instances[-1].position == position:
            return self._instances[-1]
        setting, since = self.callback(at), self._class_since(at)
        if setting.is_default:
            return None
        same = [kept for kept in self._instances if (kept.class_name, kept.since) == (setting.class_name, since)]
        earlier = [kept for kept in same if kept.position <= position]
        known = max(earlier, key=attrgetter("position")) if earlier else self._make_instance(since, since)
        instance = self._advanced(known, position)
        self._instances = [*(kept for kept in self._instances if kept is not known), instance]
        if len(self._instances) > _MAX_INSTANCES:
            self._discard(self._instances[0])
        return instance

    def _class_since(self, at: int) -> int:
        """Return the time (epoch ms) since which the class that is in force as of `at` has been in force."""
        since, name = BEGINNING, self._callbacks.class_name
        for change in self.settings.all[: self.settings.count(at)]:
            present = change.setting.class_name if change.setting else self._callbacks.class_name
            if present != name:
                since, name = change.moment, present
        return since

    def _make_instance(self, since: int, at: int) -> CallbackInstance:
        """Return a new instance of the class in force since then, with the configs and all changes as of `at`."""
        setting, position = self.callback(at), _count_until(self._events, at)
        allowed = setting.class_name in self._callbacks.allowed
        instance = CallbackInstance(setting, allowed=allowed, since=since, position=position)
        for event in self._events[:position]:
            self._apply(instance, event)
        return instance

    def _advanced(self, instance: CallbackInstance, position: int) -> CallbackInstance:
        """Pass the events before a position to an instance, and return it or the one that replaces it."""
        while instance.position < position:
            event = self._events[instance.position]
            instance.position += 1
            if not isinstance(event.change, CallbackChange):
                self._apply(instance, event)
                continue
            if not instance.has_failures:
                instance.configure(self.callback(event.moment).configs)
            else:  # its other failures may have come from bad configs
                instance.close()
                instance = self._make_instance(instance.since, event.moment)
        return instance

    def _apply(self, instance: CallbackInstance, event: _Event) -> None:
        match event.change:
            case bytes(json):
                instance.set_cluster(_cluster_decoder.decode(zlib.decompress(json)))
            case QuotaChange(entity, moment=moment) | QuotaCancellation(entity, moment):
                # The whole quota, since the change may name only some configs.
                instance.set_quota(entity, self.timeline.quota(entity, moment))

    def _discard(self, instance: CallbackInstance) -> None:
        self._instances = [kept for kept in self._instances if kept is not instance]
        instance.close()


def _count_until(events: list[_Event], at: int) -> int:
    return bisect_right(events, at, key=attrgetter("moment"))
