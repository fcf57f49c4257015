"""Prepares a change of the quota log: creates its topic, and adds the author to the record."""

from typing import TypeVar

import msgspec

from quota.records.quota_log import QuotaLogRecord
from quota.settings import Settings

R = TypeVar("R", bound=QuotaLogRecord)


def prepare_quota_topic(settings: Settings) -> None:
    """Create the quota topic if it is missing, and check its configs."""
    from quota.kafka.topics.preparation import prepare_topics

    prepare_topics(settings, [settings.topics.quotas])


def sign(record: R, settings: Settings, comment: str | None, effective_at: int | None = None) -> R:
    """Return a record with the author of the change, its reason, and the time when it takes effect.

    Args:
        record: the change; its own comment is replaced only if one is given, and its own time is never replaced.
        settings: may name the author (`quota.altered_by`).
        comment: the reason.
        effective_at: the time when the change takes effect, epoch ms; None for as soon as it is written.
    """
    from quota.kafka.quotas.writer import author

    return msgspec.structs.replace(
        record,
        effective_at=effective_at if record.effective_at is None else record.effective_at,
        altered_by=author(settings),
        comment=record.comment if comment is None else comment,
    )
