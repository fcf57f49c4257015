"""A writer of the quota log: each change of quotas, callback or cluster metadata is a record."""

import getpass
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TypeVar

from confluent_kafka import KafkaException
from msgspec.structs import replace

from quota.errors import ClusterError, interrupts_saying
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
from quota.timeline.change import CallbackChange, QuotaChange, is_complete, joined, to_change
from quota.timeline.timeline import QuotaTimeline

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
) -> tuple[QuotaRecord, int, QuotaTimeline]:
    """Change the quota of an entity without losing concurrent changes by others.

    `change` returns the record for the quota that the entity has at `effective_at` [epoch ms], by default now. Returns
    the last record of the entity, the time at which it takes effect [epoch ms], and the quotas with it.

    A record names the configs that it changes, and the timeline applies only these. It also holds the whole quota,
    for the time when compaction has removed the records before it; and one for a scheduled time names all configs
    that change then, since compaction removes earlier records for that time. If the last record lacks a concurrent
    change, one that changes nothing else is written after it, with the whole.
    """
    log = read_log(settings, with_entries=True)
    present = log.timeline.latest(entity, effective_at or log.now)
    record = change(present.quota if present else None)
    if present is not None and record.quota == present.quota and effective_at is None:
        return record, present.moment, log.timeline  # nothing changes
    last, since = _write_until_complete(settings, log, record, lambda at: log.timeline.latest(entity, at), str(entity))
    return last, since, log.timeline


def alter_callback(
    settings: Settings, effective_at: int | None, change: Callable[[CallbackSetting], CallbackRecord]
) -> tuple[CallbackRecord, int | None]:
    """Change the callback or its configs as `alter_quota` does; the time is None if nothing has to change."""
    log = read_log(settings, with_entries=True)
    present = log.quotas.callback(effective_at or log.now)
    record = change(present)
    if record.callback == present and effective_at is None:
        return record, None
    return _write_until_complete(settings, log, record, log.quotas.latest_callback, "the callback")


def publish_cluster(settings: Settings, record: ClusterRecord) -> int | None:
    """Write the metadata of a cluster to the quota log, for callbacks that depend on partitions (KIP-257).

    Returns the time at which it takes effect [epoch ms]; None if the latest record is the same.
    """
    entries = reversed(read_log(settings, with_entries=True).entries)
    latest = next((entry.record for entry in entries if isinstance(entry.record, ClusterRecord)), None)
    if latest is not None and latest.cluster == record.cluster:
        return None
    return write_record(settings, record)


def _write_until_complete(
    settings: Settings,
    log: QuotaLog,
    record: AlterRecord,
    version: Callable[[int], QuotaChange | CallbackChange | None],
    what: str,
) -> tuple[AlterRecord, int]:
    """Write a record, and after it others that change nothing, until the last one of its key is complete.

    `version` returns the latest change as of a time (epoch ms), with the whole that results.
    """
    if record.effective_at is not None:
        record = joined(record, version(record.effective_at))
    next_record: QuotaRecord | CallbackRecord = record
    for _ in range(_MAX_ATTEMPTS):
        (timestamp,) = write_records(settings, [next_record])
        log.read_to_end()
        last, at = next(
            (entry.record, entry.timestamp)
            for entry in reversed(log.entries)
            if isinstance(entry.record, type(record)) and entry.record.key == record.key
        )
        whole = version(to_change(last, at).moment)
        if whole is None or last.cancelled or is_complete(last, at, whole):
            return last, max(timestamp, record.effective_at or 0)
        whole_record = whole.record(record.effective_at)
        next_record = replace(whole_record, altered_by=record.altered_by, comment=record.comment)
    raise ClusterError(f"{what} is being changed concurrently by others; see quotas history, then try again")
