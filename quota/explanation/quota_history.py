"""The history of quotas in a recorded quota log: the quota of a decision, and who set it."""

from collections.abc import Iterable

import msgspec

from quota.callbacks.timeline import CallbackTimeline
from quota.errors import BadRecord
from quota.records.decision import Decision
from quota.records.entity import QuotaEntity
from quota.records.quota_log import Callbacks, QuotaLogEntry
from quota.timeline.change import QuotaChange, to_change


class QuotaOrigin(msgspec.Struct, frozen=True):
    """The change that set an entity's quota in force at a given time."""

    entity: QuotaEntity
    since: int
    """The time from which the quota is in force [epoch ms]."""
    altered_at: int
    """The time at which it was set, which is before `since` if it was scheduled [epoch ms]."""
    altered_by: str | None
    comment: str | None


class QuotaHistory:
    """The recorded changes of the quota log, in the log's order."""

    def __init__(self, entries: Iterable[QuotaLogEntry], callbacks: Callbacks | None = None) -> None:
        self._quotas = CallbackTimeline(callbacks)
        self._changes = [(entry, to_change(entry.record, entry.timestamp)) for entry in entries]
        for _, change in self._changes:
            self._quotas.add(change)

    def since(self, decision: Decision) -> int | None:
        """Return the time (epoch ms) since which the bucket had the decision's quota.

        None if the recorded changes result in another quota.
        """
        try:
            resolution = self._quotas.resolve(decision.user, decision.client_id, decision.timestamp)
        except BadRecord:  # the callback fails here, or no longer exists
            return None
        limit = resolution.limit
        same_origin = (resolution.callback, resolution.entity) == (decision.callback, decision.quota_entity)
        return limit.since if same_origin and limit and limit.quota.rate == decision.quota else None

    def reset_at(self, decision: Decision) -> int | None:
        """Return the latest reset (epoch ms) of the decision's bucket, as of the decision."""
        return self._quotas.timeline.reset_at(decision.tags, decision.timestamp)

    def origin(self, entity: QuotaEntity, at: int) -> QuotaOrigin | None:
        """Return the change that set an entity's quota in force at `at` (epoch ms); None if it was not recorded."""
        latest = self._quotas.timeline.latest(entity, at)
        if latest is None:
            return None
        for entry, change in reversed(self._changes):
            if isinstance(change, QuotaChange) and (change.entity, change.moment) == (entity, latest.moment):
                record = entry.record
                return QuotaOrigin(entity, change.moment, entry.timestamp, record.altered_by, record.comment)
        return None
