"""Setting quotas: a change is a record of the quota topic."""

from collections.abc import Callable, Sequence
from typing import TypeVar

import msgspec
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from quota.errors import BadInput, ClusterError
from quota.kafka.clients import client_config, reason
from quota.kafka.quota_log import QuotaLog, read_log
from quota.kafka.topics.specs import MAX_QUOTA_BYTES
from quota.records import codec
from quota.records.callback import CallbackSetting
from quota.records.entity import QuotaEntity
from quota.records.quota import Quota
from quota.records.quota_log import CallbackRecord, LogEntry, LogRecord, QuotaRecord
from quota.settings.model import Settings
from quota.timeline.plan import set_to, signed

AlterRecord = TypeVar("AlterRecord", QuotaRecord, CallbackRecord)

_TRIES = 20


def write_records(settings: Settings, records: Sequence[LogRecord]) -> list[LogEntry]:
    """Write changes, in this order.

    Returns:
        Each as it stands in the log, with the time that the broker stamped it (epoch ms).

    Raises:
        ClusterError: not all were acknowledged in time; says how many were.
    """
    where = f"Kafka at {settings.kafka.bootstrap_servers}"
    config: dict[str, str | float] = {
        "acks": "all",
        "enable.idempotence": True,
        "message.max.bytes": MAX_QUOTA_BYTES,
        "message.timeout.ms": round(settings.kafka.timeout_seconds * 1000),
    }
    producer = Producer(client_config(settings.kafka.connection, config))
    written: list[LogEntry] = []
    failed: list[KafkaError] = []
    for record in records:

        def delivered(error: KafkaError | None, message: Message, record: LogRecord = record) -> None:
            if error is not None:
                failed.append(error)
            else:
                written.append(LogEntry(message.offset() or 0, message.timestamp()[1], record))

        while not failed:
            try:
                producer.produce(
                    settings.topics.quotas, key=record.key, value=codec.encode(record), on_delivery=delivered
                )
            except BufferError:
                producer.poll(0.1)
            except KafkaException as error:  # larger than any record may be
                failed.append(error.args[0])
            else:
                break
        producer.poll(0)
    producer.flush(settings.kafka.timeout_seconds + 1)
    if failed or len(written) < len(records):
        why = reason(failed[0]) if failed else "no answer in time"
        done = f"{len(written)} of {len(records)} changes are set" if len(records) > 1 else "the change is not set"
        raise ClusterError(f"{done} ({where}): {why}")
    return written


def write_record(settings: Settings, record: LogRecord) -> int:
    """Write one change.

    Returns:
        The moment from which it holds, as the broker stamped it (epoch ms), or a later `effective_at`.

    Raises:
        ClusterError: the change was not acknowledged in time.
    """
    (entry,) = write_records(settings, [record])
    return max(entry.timestamp, record.effective_at or 0)


def alter_quota(
    settings: Settings,
    entity: QuotaEntity,
    effective_at: int | None,
    change: Callable[[Quota | None], QuotaRecord],
) -> tuple[QuotaRecord, int]:
    """Change what an entity has, without losing what someone else changes of it at the same time.

    A record says which part of the quota it changes, and the timeline takes it so. It also holds the whole, for
    the time when compaction has removed those before it; where that whole lacks what another wrote meanwhile, a
    record that changes nothing is written behind it, with all of it.

    Args:
        settings: the settings.
        entity: whose quota.
        effective_at: from when on, epoch ms; from now on if not given.
        change: the record, with its `altered_configs`, from the quota that the entity has at that moment.

    Returns:
        The record that stands in the end, and the moment from which it holds.

    Raises:
        ClusterError: the topic cannot be read or written.
    """
    log = read_log(settings, keep=True)
    present = log.timeline.latest(entity, effective_at or log.now)
    quota = present.quota if present else None
    record = change(quota)
    if present is not None and record.quota == quota and effective_at is None:
        return record, present.moment  # a record would say nothing new

    def whole(last: QuotaRecord) -> QuotaRecord:
        holds = log.timeline.latest(entity, effective_at or log.now)
        together = holds.quota if holds else None
        return last if last.quota == together else signed(set_to(entity, together), effective_at, None, None)

    return _write_whole(settings, log, record, whole, str(entity))


def alter_callback(
    settings: Settings, effective_at: int | None, change: Callable[[CallbackSetting], CallbackRecord]
) -> tuple[CallbackRecord, int | None]:
    """Change the callback or its configs, as `alter_quota` does: without losing what others change at the same time.

    Args:
        settings: the settings.
        effective_at: from when on, epoch ms; from now on if not given.
        change: the record, from the callback that is in force at that moment, with its `altered_configs` where it is
            about some configs alone.

    Returns:
        The record that stands in the end, and the moment from which it holds; None where nothing had to change.

    Raises:
        BadInput: another change is scheduled, which would undo this one.
        ClusterError: the topic cannot be read or written.
    """
    log = read_log(settings, keep=True)
    scheduled = [each.moment for each in log.quotas.scheduled(log.now) if each.moment != effective_at]
    if scheduled:
        raise BadInput(
            "a change of the callback is scheduled already, and would undo this one: "
            "take it back (callback cancel), or change that one (give its --effective-at)"
        )
    present = log.quotas.callback(effective_at or log.now)
    record = change(present)
    if record.callback == present and effective_at is None:
        return record, None

    def whole(last: CallbackRecord) -> CallbackRecord:
        together = log.quotas.callback(effective_at or log.now)
        return last if last.callback in (None, together) else CallbackRecord(together, effective_at)

    return _write_whole(settings, log, record, whole, "the callback")


def _write_whole(
    settings: Settings, log: QuotaLog, record: AlterRecord, whole: Callable[[AlterRecord], AlterRecord], what: str
) -> tuple[AlterRecord, int]:
    """Write a record, and behind it others that change nothing, until the last one under its key holds the whole.

    Args:
        settings: the settings.
        log: the log, with its records.
        record: what is changed.
        whole: the last record itself where it holds the whole of what is in force then; else one that does.
        what: what is changed, for the error.

    Returns:
        The record that stands in the end, and the moment from which it holds.
    """
    next_one = record
    for _ in range(_TRIES):
        (entry,) = write_records(settings, [next_one])
        log.read_on()
        records = (each.record for each in reversed(log.entries))
        last = next(each for each in records if isinstance(each, type(record)) and each.key == record.key)
        together = whole(last)
        if together is last:
            return last, max(entry.timestamp, record.effective_at or 0)
        next_one = msgspec.structs.replace(
            together, altered_by=record.altered_by, comment=record.comment, altered_configs=[]
        )
    raise ClusterError(f"{what} is being changed by others all the time; see quotas history")
