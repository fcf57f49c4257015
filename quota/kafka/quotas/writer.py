"""A writer of the quota log: each change of quotas, callback or cluster metadata is a record."""

import asyncio
import getpass
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import TypeVar

from confluent_kafka import KafkaException
from msgspec.structs import replace

from quota.errors import ClusterError, MutationQuotaError, interrupts_saying
from quota.kafka.librdkafka import client_config, reason
from quota.kafka.producers import RecordProducer
from quota.kafka.quotas.log import QuotaLog, read_log
from quota.kafka.topics.specs import MAX_QUOTA_BYTES
from quota.records import codec
from quota.records.entity import QuotaEntity
from quota.records.quota_log import (
    RATE_CONFIG,
    CallbackRecord,
    CallbackSetting,
    ClusterRecord,
    Quota,
    QuotaLogRecord,
    QuotaRecord,
)
from quota.settings import Settings
from quota.text import plural
from quota.timeline.change import CallbackChange, QuotaChange, is_complete, joined, quota_record, to_change

AlterRecord = TypeVar("AlterRecord", QuotaRecord, CallbackRecord)

_MAX_ATTEMPTS = 20
_FLUSH_GRACE_SECONDS = 1.0


class QuotaWriter:
    """A writer for several changes: the first takes half a second, as with each idempotent producer of librdkafka."""

    def __init__(self, settings: Settings) -> None:
        """Connect."""
        self._settings = settings
        config: dict[str, str | float] = {
            "acks": "all",
            "enable.idempotence": True,
            "message.max.bytes": MAX_QUOTA_BYTES,
            "message.timeout.ms": round(settings.kafka.timeout_seconds * 1000),
        }
        self._producer = RecordProducer(client_config(settings.kafka.connection, config))

    def write(self, records: Sequence[QuotaLogRecord]) -> list[int]:
        """Write changes, in this order, and return the timestamps that the broker set [epoch ms].

        After an error, a new writer is needed.
        """
        timestamps: list[int] = []

        def done() -> str:
            return f"{len(timestamps):,} of {plural(len(records), 'change')} set"

        try:
            with interrupts_saying(lambda: f"{done()}, and others may be; see quotas history"):
                with suppress(KafkaException):  # nothing more is sent, and `flush` raises it, too
                    for record in records:
                        self._producer.send(
                            self._settings.topics.quotas,
                            codec.encode(record),
                            record.key,
                            lambda message: timestamps.append(message.timestamp()[1]),
                        )
                self._producer.flush(self._settings.kafka.timeout_seconds + _FLUSH_GRACE_SECONDS)
        except KafkaException as error:
            text = done() if len(records) > 1 else "the change is not set"
            raise ClusterError(f"{text} (Kafka at {self._settings.kafka.bootstrap_servers}): {reason(error)}") from None
        return timestamps


def write_records(settings: Settings, records: Sequence[QuotaLogRecord]) -> list[int]:
    """Write changes, in this order, and return the timestamps that the broker set [epoch ms]."""
    return QuotaWriter(settings).write(records)


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


def alter_quotas(
    writer: QuotaWriter,
    log: QuotaLog,
    changes: Mapping[QuotaEntity, Callable[[Quota | None], QuotaRecord]],
    effective_at: int | None = None,
) -> dict[QuotaEntity, tuple[QuotaRecord, int]]:
    """Change the quotas of entities without losing concurrent changes by others; `log` retains its entries.

    A change returns the record for the quota that the entity has at `effective_at` [epoch ms], by default now. Returns
    the last record of each entity, and the time at which it takes effect [epoch ms]; the log is then read up to it.

    A record names the configs that it changes, and the timeline applies only these. It also holds the whole quota,
    for the time when compaction has removed the records before it; and one for a scheduled time names all configs
    that change then, since compaction removes earlier records for that time. If the last record lacks a concurrent
    change, one that changes nothing else is written after it, with the whole.
    """
    done, records = {}, []
    for entity, change in changes.items():
        present = log.timeline.latest(entity, effective_at or log.now)
        quota = present.quota if present else None
        record = change(quota)
        if record.quota == quota and effective_at is None:  # nothing changes
            done[entity] = record, present.moment if present else log.now
        else:
            records.append(record)
    written = _write_until_complete(writer, log, records, lambda record, at: log.timeline.latest(record.entity, at))
    return done | {record.entity: (record, since) for record, since in written}


def alter_callback(
    settings: Settings, effective_at: int | None, change: Callable[[CallbackSetting], CallbackRecord]
) -> tuple[CallbackRecord, int | None]:
    """Change the callback or its configs as `alter_quotas` does; the time is None if nothing has to change."""
    log = read_log(settings, with_entries=True)
    present = log.quotas.callback(effective_at or log.now)
    record = change(present)
    if record.callback == present and effective_at is None:
        return record, None
    writer = QuotaWriter(settings)
    ((last, since),) = _write_until_complete(writer, log, [record], lambda _, at: log.quotas.latest_callback(at))
    return last, since


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
    writer: QuotaWriter,
    log: QuotaLog,
    records: Sequence[AlterRecord],
    version: Callable[[AlterRecord, int], QuotaChange | CallbackChange | None],
) -> list[tuple[AlterRecord, int]]:
    """Write records, and after each others that change nothing, until the last one of its key is complete.

    Returns the last records, and the times at which they take effect [epoch ms]. `version` returns the latest change
    of a record's entity as of a time (epoch ms), with the whole that results.
    """
    done: list[tuple[AlterRecord, int]] = []
    joint = (
        record if record.effective_at is None else joined(record, version(record, record.effective_at))
        for record in records
    )
    incomplete: dict[bytes, tuple[AlterRecord, QuotaLogRecord]] = {record.key: (record, record) for record in joint}
    for _ in range(_MAX_ATTEMPTS):
        if not incomplete:
            return done
        log.take_entries()
        writer.write([next_record for _, next_record in incomplete.values()])
        log.read_to_end()
        last = {entry.record.key: entry for entry in log.take_entries()}
        for key, (record, _) in list(incomplete.items()):
            latest, at = last[key].record, last[key].timestamp
            if not isinstance(latest, type(record)):
                raise TypeError(f"a record of another kind has the key {key!r}")
            whole = version(record, to_change(latest, at).moment)
            if whole is None or latest.cancelled or is_complete(latest, at, whole):
                done.append((latest, max(at, record.effective_at or 0)))
                del incomplete[key]
            else:
                whole_record = whole.record(record.effective_at)
                next_record = replace(whole_record, altered_by=record.altered_by, comment=record.comment)
                incomplete[key] = record, next_record
    record, _ = next(iter(incomplete.values()))
    subject = record.entity if isinstance(record, QuotaRecord) else "the callback"
    raise ClusterError(f"{subject} is being changed concurrently by others; see quotas history, then try again")


T = TypeVar("T")

_log = logging.getLogger(__name__)


class LoggedRates:
    """Reads and alters the rates in the quota log, one call after the other on one thread."""

    def __init__(self, settings: Settings, timeout_seconds: float) -> None:
        """Read the log at the first call; each call may take `timeout_seconds`."""
        self._settings = settings
        self._timeout = timeout_seconds
        self._log: QuotaLog | None = None
        self._writer: QuotaWriter | None = None
        self._thread = ThreadPoolExecutor(1, "mutation-quota-rates")

    async def read(self) -> dict[QuotaEntity, float]:
        """Return the rates in force [mutations/s]."""

        def rates(log: QuotaLog) -> dict[QuotaEntity, float]:
            return {change.entity: change.quota.rate for change in log.timeline.configured(log.now) if change.quota}

        return await self._call(rates)

    async def alter(self, changes: Mapping[QuotaEntity, float | None], author: str, comment: str) -> None:
        """Set rates, or remove the quotas of those that are None; the changes are acknowledged on return.

        Other configs of the quotas stay. After an error, any of the changes may be made.
        """
        records = {entity: partial(_altered, entity, rate, author, comment) for entity, rate in changes.items()}
        await self._call(lambda log: alter_quotas(self._kept_writer(), log, records))

    def close(self) -> None:
        """Wait for the call in progress, and close the connection."""
        self._thread.shutdown(cancel_futures=True)
        if self._log is not None:
            self._log.close()

    async def _call(self, use: Callable[[QuotaLog], T]) -> T:
        """Return the result of a function of the log, read to its end; errors are logged and raised."""
        try:
            async with asyncio.timeout(self._timeout):
                return await asyncio.get_running_loop().run_in_executor(self._thread, self._use, use)
        except TimeoutError:
            error: Exception = ClusterError(f"it takes longer than {self._timeout:g} s")
        except Exception as raised:  # noqa: BLE001 a client waits for the result
            error = raised
        expected = isinstance(error, MutationQuotaError)
        _log.warning("a client cannot use the quota log: %s", error, exc_info=None if expected else error)
        raise ClusterError(str(error) if expected else type(error).__name__) from None

    def _use(self, use: Callable[[QuotaLog], T]) -> T:
        if self._log is None:
            self._log = read_log(self._settings, with_entries=True)
        log = self._log
        try:
            log.read_to_end()
            log.take_entries()
            return use(log)
        except Exception:
            self._log = self._writer = None
            log.close()
            raise

    def _kept_writer(self) -> QuotaWriter:
        self._writer = self._writer or QuotaWriter(self._settings)
        return self._writer


def _altered(entity: QuotaEntity, rate: float | None, author: str, comment: str, present: Quota | None) -> QuotaRecord:
    """Return the record that changes the rate of a quota, or removes the quota."""
    quota = None
    if rate is not None:
        quota = Quota(rate) if present is None else replace(present, rate=rate)
    return replace(quota_record(entity, quota), altered_configs=[RATE_CONFIG], altered_by=author, comment=comment)
