"""The quota log as it was kept, to be asked what held for a decision, and who had set it."""

from collections.abc import Iterable

import msgspec

from quota.callbacks.timeline import CallbackTimeline
from quota.errors import BadRecord
from quota.records.callback import Callbacks
from quota.records.decision import Decision
from quota.records.entity import QuotaEntity, Tags
from quota.records.quota_log import LogEntry
from quota.timeline.change import QuotaChange, change_of


class QuotaOrigin(msgspec.Struct, frozen=True):
    """The change that gave an entity the quota which held at a moment."""

    entity: QuotaEntity
    since: int
    """From when on it holds, epoch ms."""
    altered_at: int
    """When it was made: before `since` where it was scheduled. Epoch ms."""
    altered_by: str | None
    comment: str | None


class QuotaHistory:
    """All changes of the quota log that were kept, in the log's order."""

    def __init__(self, entries: Iterable[LogEntry], callbacks: Callbacks | None = None) -> None:
        """Read them.

        Args:
            entries: the records, in the log's order.
            callbacks: what the settings say, as for the jobs.
        """
        self._quotas = CallbackTimeline(callbacks)
        self._changes = [(entry, change_of(entry.record, entry.timestamp)) for entry in entries]
        for _, change in self._changes:
            self._quotas.add(change)

    def since(self, decision: Decision) -> int | None:
        """The moment (epoch ms) since which the bucket had the quota of a decision; None if they tell another quota."""
        try:
            found = self._quotas.resolve(decision.user, decision.client_id, decision.timestamp)
        except BadRecord:  # a callback that fails here, or is not there any more
            return None
        judged_alike = (found.callback, found.entity) == (decision.callback, decision.quota_entity)
        if not (judged_alike and found.limit and found.limit.quota.rate == decision.quota):
            return None
        return found.limit.since

    def reset_at(self, decision: Decision) -> int | None:
        """When the bucket of a decision was reset last, as of that decision (epoch ms)."""
        tags = Tags(decision.user_tag, decision.client_tag, tuple(sorted(decision.more_tags.items())))
        return self._quotas.timeline.reset_at(tags, decision.timestamp)

    def set_quota(self, entity: QuotaEntity, at: int) -> QuotaOrigin | None:
        """The change by which an entity has its quota as of `at` (epoch ms), where it is among those that were kept."""
        latest = self._quotas.timeline.latest(entity, at)
        if latest is None:
            return None
        for entry, change in reversed(self._changes):
            if isinstance(change, QuotaChange) and (change.entity, change.moment) == (entity, latest.moment):
                record = entry.record
                return QuotaOrigin(entity, change.moment, entry.timestamp, record.altered_by, record.comment)
        return None
