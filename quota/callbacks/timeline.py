"""The quotas in time as the callback in force has them: a function of the quota log alone, for any moment."""

import zlib
from bisect import bisect_right, insort
from typing import NamedTuple

import msgspec

from quota.callbacks.instance import CallbackInstance
from quota.records import codec
from quota.records.callback import Callbacks, CallbackSetting
from quota.records.entity import QuotaEntity, levels
from quota.records.fields import SINCE_EVER
from quota.records.quota import Limit
from quota.records.quota_log import Cluster
from quota.timeline.change import (
    BucketReset,
    CallbackCancellation,
    CallbackChange,
    Cancellation,
    Change,
    ClusterChange,
    QuotaChange,
)
from quota.timeline.resolution import Resolution
from quota.timeline.timeline import QuotaTimeline

_cluster_decoder = msgspec.json.Decoder(Cluster)

_KEPT = 4  # instances at different places of the log: a batch may go back to before a change


class _Packed(NamedTuple):
    """A cluster, which may be megabytes, of which there may be many."""

    cluster: bytes


class _Event(NamedTuple):
    moment: int
    order: int
    change: Change | _Packed


class _Placed:
    """An instance, and how many of the events it has been told; `epoch` is the number of the change that made it."""

    def __init__(self, running: CallbackInstance, epoch: int, position: int) -> None:
        self.running = running
        self.epoch = epoch
        self.position = position


class CallbackTimeline:
    """All changes of the quota log, judged by the callback that is in force as of a timestamp.

    Where that is the default, the timeline answers. For all others an instance is told every change up to the
    moment of the request, in the log's order, before it is asked; for a request from before a change that is told
    already, another instance is made and told up to there.
    """

    def __init__(self, callbacks: Callbacks | None = None) -> None:
        """Without any change.

        Args:
            callbacks: what the settings say.
        """
        self.timeline = QuotaTimeline()
        self._callbacks = callbacks or Callbacks()
        self._default_alone = all(CallbackSetting(name).is_default for name in self._callbacks.allowed)
        self._order = 0
        self._events: list[_Event] = []
        self._clusters: list[int] = []
        self._settings: list[_Event] = []
        self._instances: list[_Placed] = []  # the one used last is the last

    def add(self, change: Change) -> None:
        """Add a change; of two changes at one moment the one added later holds."""
        self.timeline.add(change)
        self._order += 1
        event = _Event(change.moment, self._order, change)
        match change:
            case BucketReset():
                return  # no callback is told
            case CallbackCancellation(moment):
                self._forget_from(_until(self._events, moment - 1))
                self._events = [each for each in self._events if each.moment != moment or not _is_setting(each)]
                self._settings = [each for each in self._settings if each.moment != moment]
                return
            case CallbackChange(moment=moment):
                number = _until(self._settings, moment)
                if number:  # otherwise compaction may have removed what was before: the record holds the whole
                    event = event._replace(change=CallbackChange(change.on(self._setting(number)), moment))
                self._settings.insert(number, event)
            case _ if self._default_alone:
                return  # nobody will be told
            case ClusterChange(cluster, moment):
                insort(self._clusters, moment)
                event = event._replace(change=_Packed(zlib.compress(codec.encode(cluster))))
        place = _until(self._events, change.moment)
        self._events.insert(place, event)
        self._forget_from(place)

    def resolve(self, user: str, client_id: str, at: int) -> Resolution:
        """The quota of a request with this user and client-id, as of `at` (epoch ms).

        Raises:
            CallbackError: the callback raised, or answered what cannot be used.
        """
        if self._default_alone and not self._settings:
            return self.timeline.resolve(user, client_id, at)
        running = self._running(at)
        if running is None:
            return self._by_levels(user, client_id, at)
        tags, quota, entity = running.judge(user, client_id)
        if quota is None:
            return Resolution(tags, None, None, callback=running.class_name)
        limit = Limit(quota, self._since(user, client_id, entity, at))
        reset_at = self.timeline.reset_at(tags, at)
        return Resolution(tags, limit, entity, reset_at, quota.shadow, callback=running.class_name)

    def callback(self, at: int) -> CallbackSetting:
        """The callback that is in force as of `at` (epoch ms)."""
        return self._setting(_until(self._settings, at))

    def scheduled(self, after: int) -> list[CallbackChange]:
        """Callbacks that hold from a later moment on, in the order of their moments."""
        later = [each.change for each in self._settings[_until(self._settings, after) :]]
        return [each for each in later if isinstance(each, CallbackChange)]

    def close(self) -> None:
        """Close all instances."""
        for each in list(self._instances):
            self._discard(each)

    def _by_levels(self, user: str, client_id: str, at: int) -> Resolution:
        found = self.timeline.resolve(user, client_id, at)
        epoch = self._epoch(_until(self._settings, at))
        if not epoch or found.limit is None:
            return found
        # What a bucket was used at before, another callback may have said.
        since = max(found.limit.since, self._settings[epoch - 1].moment)
        return found._replace(limit=Limit(found.limit.quota, since))

    def _since(self, user: str, client_id: str, entity: QuotaEntity | None, at: int) -> int:
        """The moment since which a limit may have held: only the callback knows what it was before.

        That is when something changed that the limit may depend on: the cluster, the callback, and the quotas that
        concern the request, or all quotas where the callback does not say whose quota it took.
        """
        if entity is None:
            position = _until(self._events, at)
            return self._events[position - 1].moment if position else SINCE_EVER
        entities = {entity, *(each for each, _ in levels(user, client_id))}
        changes = (self.timeline.latest(each, at) for each in entities)
        moments = [change.moment for change in changes if change]
        clusters, settings = bisect_right(self._clusters, at), _until(self._settings, at)
        moments += self._clusters[max(clusters - 1, 0) : clusters]
        moments += [each.moment for each in self._settings[max(settings - 1, 0) : settings]]
        return max(moments, default=SINCE_EVER)

    def _forget_from(self, place: int) -> None:
        """Discard the instances that have been told of more than the first `place` events."""
        for each in [each for each in self._instances if each.position > place]:
            self._discard(each)

    def _running(self, at: int) -> CallbackInstance | None:
        """The instance that is in force, told of everything up to `at`; None for the default."""
        position = _until(self._events, at)
        if self._instances and self._instances[-1].position == position:
            return self._instances[-1].running
        number = _until(self._settings, at)
        if self._setting(number).is_default:
            return None
        epoch = self._epoch(number)
        earlier = [each for each in self._instances if each.epoch == epoch and each.position <= position]
        placed = max(earlier, key=lambda each: each.position) if earlier else self._start(epoch)
        self._tell(placed, position)
        self._instances = [*(each for each in self._instances if each is not placed), placed]
        if len(self._instances) > _KEPT:
            self._discard(self._instances[0])
        return placed.running

    def _setting(self, number: int) -> CallbackSetting:
        """What holds after so many changes of the callback."""
        change = self._settings[number - 1].change if number else None
        named = change.setting if isinstance(change, CallbackChange) else None
        return named or self._callbacks.setting

    def _epoch(self, number: int) -> int:
        """The change that brought the class which holds after `number` changes; 0 for the settings."""
        while number and self._setting(number - 1).class_name == self._setting(number).class_name:
            number -= 1
        return number

    def _start(self, epoch: int) -> _Placed:
        """A new instance, told what the log says up to the change that brought it."""
        position = 0
        if epoch:
            event = self._settings[epoch - 1]
            position = bisect_right(self._events, (event.moment, event.order), key=lambda each: each[:2])
        return _Placed(self._made(self._setting(epoch), position), epoch, position)

    def _made(self, setting: CallbackSetting, position: int) -> CallbackInstance:
        """A new instance with these configs, told what the log says in its first `position` events."""
        running = CallbackInstance(setting, allowed=setting.class_name in self._callbacks.allowed)
        for event in self._events[:position]:
            self._tell_one(running, event)
        return running

    def _tell(self, placed: _Placed, position: int) -> None:
        while placed.position < position:
            event = self._events[placed.position]
            placed.position += 1
            if not isinstance(event.change, CallbackChange):
                self._tell_one(placed.running, event)
                continue
            setting = event.change.setting or self._callbacks.setting
            if placed.running.is_well:
                placed.running.configure(setting.configs)
            else:  # it may have failed on what came later only because its configs were bad
                placed.running.close()
                placed.running = self._made(setting, placed.position)

    def _tell_one(self, running: CallbackInstance, event: _Event) -> None:
        match event.change:
            case _Packed(cluster):
                running.set_cluster(_cluster_decoder.decode(zlib.decompress(cluster)))
            case QuotaChange(entity, moment=moment) | Cancellation(entity, moment):
                latest = self.timeline.latest(entity, moment)  # as it holds: on top of what others changed
                running.set_quota(entity, latest.quota if latest else None)

    def _discard(self, placed: _Placed) -> None:
        self._instances = [each for each in self._instances if each is not placed]
        placed.running.close()


def _is_setting(event: _Event) -> bool:
    return isinstance(event.change, CallbackChange)


def _moment(event: _Event) -> int:
    return event.moment


def _until(events: list[_Event], at: int) -> int:
    return bisect_right(events, at, key=_moment)
