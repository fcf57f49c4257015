"""A writer of the quota log: each change of quotas, callback or cluster metadata is a record."""

import getpass
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TypeVar

from confluent_kafka import KafkaException
from msgspec.structs import replace

from quota.errors import BadInput, ClusterError, interrupts_saying
from quota.kafka.clients import client_config, reason
from quota.kafka.producing import RecordProducer
from quota.kafka.quotas.log import QuotaLog, read_log
from quota.kafka.topics.specs import MAX_QUOTA_BYTES
from quota.records import codec
from quota.records.callback import CallbackSetting
from quota.records.entity import QuotaEntity
from quota.records.quota import Quota
from quota.records.quota_log import CallbackRecord, ClusterRecord, QuotaLogRecord, QuotaRecord
from quota.settings import Settings
from quota.text import plural
from quota.timeline.plan import quota_record

AlterRecord = TypeVar("AlterRecord", QuotaRecord, CallbackRecord)

_MAX_ATTEMPTS = 20
_FLUSH_GRACE_SECONDS = 1.0


def write_records(settings: Settings, records: Sequence[QuotaLogRecord]) -> list[int]:
    """Write changes, in this order, and return the timestamps that the broker set [epoch ms]."""
    timestamps: list[int] = []
    seconds = settings.kafka.timeout_seconds
    config: dict[str, str | float] = {
        "acks": "all",
        "enable.idempotence": True,
        "message.max.bytes": MAX_QUOTA_BYTES,
        "message.timeout.ms": round(seconds * 1000),
    }
    producer = RecordProducer(client_config(settings.kafka.connection, config))

    def done() -> str:
        return f"{len(timestamps):,} of {plural(len(records), 'change')} set"

    try:
        with interrupts_saying(lambda: f"{done()}, and others may be; see quotas history"):
            with suppress(KafkaException):  # nothing more is sent, and `flush` raises it, too
                for record in records:
                    producer.send(
                        settings.topics.quotas,
                        codec.encode(record),
                        record.key,
                        lambda message: timestamps.append(message.timestamp()[1]),
                    )
            producer.flush(seconds + _FLUSH_GRACE_SECONDS)
    except KafkaException as error:
        text = done() if len(records) > 1 else "the change is not set"
        raise ClusterError(f"{text} (Kafka at {settings.kafka.bootstrap_servers}): {reason(error)}") from None
    return timestamps


def write_record(settings: Settings, record: QuotaLogRecord) -> int:
    """Write one change; return when it takes effect [epoch ms]: at the broker's timestamp or a later `effective_at`."""
    (timestamp,) = write_records(settings, [record])
    return max(timestamp, record.effective_at or 0)


def author(settings: Settings) -> str:
    """Return the name to record with a change: `quota.altered_by`, or the user of the operating system."""
    try:
        return settings.quota.altered_by or getpass.getuser()
    except (KeyError, OSError):  # the user of a container may have a number and no name
        return f"uid {os.getuid()}"


def alter_quota(
    settings: Settings,
    entity: QuotaEntity,
    effective_at: int | None,
    change: Callable[[Quota | None], QuotaRecord],
) -> tuple[QuotaRecord, int]:
    """Change the quota of an entity without losing concurrent changes by others.

    `change` returns the record for the quota that the entity has at `effective_at` [epoch ms], by default now. Returns
    the last record of the entity, and the time at which it takes effect [epoch ms].

    A record names the configs that it changes, and the timeline applies only these. It also holds the whole quota,
    for the time when compaction has removed the records before it. If that whole lacks a concurrent change, a
    record that changes nothing is written after it, with the whole quota.
    """
    log = read_log(settings, with_entries=True)
    present = log.timeline.latest(entity, effective_at or log.now)
    quota = present.quota if present else None
    record = change(quota)
    if present is not None and record.quota == quota and effective_at is None:
        return record, present.moment  # nothing changes

    def with_whole_quota(last: QuotaRecord) -> QuotaRecord:
        latest = log.timeline.latest(entity, effective_at or log.now)
        whole = latest.quota if latest else None
        return last if last.quota == whole else replace(quota_record(entity, whole), effective_at=effective_at)

    return _write_until_whole(settings, log, record, with_whole_quota, str(entity))


def alter_callback(
    settings: Settings, effective_at: int | None, change: Callable[[CallbackSetting], CallbackRecord]
) -> tuple[CallbackRecord, int | None]:
    """Change the callback or its configs as `alter_quota` does; the time is None if nothing has to change.

    Another scheduled change is an error, since it would undo this one.
    """
    log = read_log(settings, with_entries=True)
    scheduled = [each.moment for each in log.quotas.scheduled(log.now) if each.moment != effective_at]
    if scheduled:
        raise BadInput(
            "a scheduled change of the callback would undo this one: cancel it (callback cancel), or change it (with "
            "its --effective-at)"
        )
    present = log.quotas.callback(effective_at or log.now)
    record = change(present)
    if record.callback == present and effective_at is None:
        return record, None

    def with_whole_callback(last: CallbackRecord) -> CallbackRecord:
        whole = log.quotas.callback(effective_at or log.now)
        return last if last.callback in (None, whole) else CallbackRecord(whole, effective_at)

    return _write_until_whole(settings, log, record, with_whole_callback, "the callback")


def publish_cluster(settings: Settings, record: ClusterRecord) -> int | None:
    """Write the metadata of a cluster to the quota log, for callbacks that depend on partitions (KIP-257).

    Returns the time at which it takes effect [epoch ms]; None if the latest record is the same.
    """
    entries = reversed(read_log(settings, with_entries=True).entries)
    latest = next((entry.record for entry in entries if isinstance(entry.record, ClusterRecord)), None)
    if latest is not None and latest.cluster == record.cluster:
        return None
    return write_record(settings, record)


def _write_until_whole(
    settings: Settings, log: QuotaLog, record: AlterRecord, with_whole: Callable[[AlterRecord], AlterRecord], what: str
) -> tuple[AlterRecord, int]:
    """Write a record, and after it others that change nothing, until the last one of its key holds the whole.

    `with_whole` returns the last record itself if it holds the whole of what is then in force, else one that does.
    """
    next_record = record
    for _ in range(_MAX_ATTEMPTS):
        (timestamp,) = write_records(settings, [next_record])
        log.read_to_end()
        records = (entry.record for entry in reversed(log.entries))
        last = next(each for each in records if isinstance(each, type(record)) and each.key == record.key)
        whole = with_whole(last)
        if whole is last:
            return last, max(timestamp, record.effective_at or 0)
        next_record = replace(whole, altered_by=record.altered_by, comment=record.comment, altered_configs=[])
    raise ClusterError(f"{what} is being changed concurrently by others; see quotas history, then try again")
