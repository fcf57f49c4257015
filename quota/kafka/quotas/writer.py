"""Writers of the quota log, for commands and for the gateway (`LoggedRates`): each change is a record."""

import asyncio
import dataclasses
import getpass
import logging
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TypeVar, cast

from confluent_kafka import KafkaException
from msgspec.structs import replace

from quota.errors import ClusterError, MutationQuotaError, interrupts_saying
from quota.kafka.librdkafka import client_config, reason
from quota.kafka.producers import RecordProducer
from quota.kafka.quotas.log import KafkaQuotas, QuotaLog, read_log
from quota.kafka.topics.specs import MAX_QUOTA_BYTES
from quota.planning.plan import ending
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
from quota.timeline.change import CallbackChange, QuotaChange, is_complete, joined, to_change

R = TypeVar("R", QuotaRecord, CallbackRecord)
T = TypeVar("T")

_log = logging.getLogger(__name__)

_MAX_ATTEMPTS = 20
_FLUSH_GRACE_SECONDS = 1.0
_PUBLISHED_AGAIN_MS = 86_400_000


@dataclass(frozen=True, slots=True)
class AlteredQuota:
    """A quota that was altered, or is as wanted already."""

    before: Quota | None
    record: QuotaRecord
    """The last record of the entity, with the quota that results."""
    since: int
    """The time from which on it is in force [epoch ms]."""
    ending: Sequence[QuotaRecord] = ()
    """The records that end the change (`quota.planning.plan.ending`); the last sets what follows."""


class QuotaWriter:
    """A writer of the quota log, which also reads it to change what is there. It connects when it is used.

    The first change takes half a second, as with each idempotent producer of librdkafka. After an error, a new writer
    is needed.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._log: QuotaLog | None = None

    def close(self) -> None:
        """Close the connection that reads."""
        if self._log is not None:
            self._log.close()

    def read(self) -> QuotaLog:
        """Return the quota log, read to its present end."""
        if self._log is None:
            quotas = KafkaQuotas.from_settings(self._settings, self._settings.kafka.timeout_seconds)
            self._log = QuotaLog(quotas, with_entries=True)
        self._log.read_to_end()
        self._log.take_entries()
        return self._log

    def write(self, records: Sequence[QuotaLogRecord]) -> list[int]:
        """Write changes, in this order, and return the timestamps that the broker set [epoch ms]."""
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

    def alter_quotas(
        self,
        changes: Mapping[QuotaEntity, Callable[[Quota | None], QuotaRecord]],
        effective_at: int | None = None,
        until: int | None = None,
    ) -> dict[QuotaEntity, AlteredQuota]:
        """Change the quotas of entities without losing concurrent changes by others.

        A change returns the record for the quota that the entity has at `effective_at` [epoch ms], by default now. It
        ends at `until` [epoch ms], by default never.

        A record names the configs that it changes, and the timeline applies only these. It also holds the whole quota,
        for the time when compaction has removed the records before it; and one for a scheduled time names all configs
        that change then, since compaction removes earlier records for that time. If the last record lacks a concurrent
        change, one that changes nothing else is written after it, with the whole.
        """
        log = self.read()
        altered: dict[QuotaEntity, AlteredQuota] = {}
        records: list[QuotaRecord] = []
        at = effective_at or log.now
        for entity, change in changes.items():
            present = log.timeline.latest(entity, at)
            before = present.quota if present else None
            record = change(before)
            end = [] if until is None else ending(record, until, log.timeline, at)
            if record.quota != before or effective_at is not None or any(each.cancelled for each in end):
                records += [record, *end]
            else:
                end = []
            altered[entity] = AlteredQuota(before, record, present.moment if present else log.now, end)
        for record, since in self._write_until_complete(log, records):
            if record.effective_at == effective_at:
                altered[record.entity] = dataclasses.replace(altered[record.entity], record=record, since=since)
        return altered

    def alter_callback(
        self, change: Callable[[CallbackSetting], CallbackRecord], effective_at: int | None = None
    ) -> tuple[CallbackRecord, int | None]:
        """Change the callback or its configs as `alter_quotas` does.

        Returns the last record, and the time from which on it is in force [epoch ms], None if nothing has to change.
        """
        log = self.read()
        present = log.quotas.callback(effective_at or log.now)
        record = change(present)
        if record.callback == present and effective_at is None:
            return record, None
        ((last, since),) = self._write_until_complete(log, [record])
        return last, since

    @cached_property
    def _producer(self) -> RecordProducer:
        config: dict[str, str | float] = {
            "acks": "all",
            "enable.idempotence": True,
            "message.max.bytes": MAX_QUOTA_BYTES,
            "message.timeout.ms": round(self._settings.kafka.timeout_seconds * 1000),
        }
        return RecordProducer(client_config(self._settings.kafka.connection, config))

    def _write_until_complete(self, log: QuotaLog, records: Iterable[R]) -> list[tuple[R, int]]:
        """Write records, and after each others that change nothing, until the last one of its key is complete.

        Returns the last records, and the times from which on they are in force [epoch ms].
        """
        done: list[tuple[R, int]] = []
        incomplete: dict[bytes, QuotaLogRecord] = {}
        for record in records:
            at = record.effective_at
            incomplete[record.key] = record if at is None else joined(record, _latest(log, record, at))
        for _ in range(_MAX_ATTEMPTS):
            if not incomplete:
                return done
            self.write([*incomplete.values()])
            log.read_to_end()
            last = {entry.record.key: entry for entry in log.take_entries()}
            if incomplete.keys() - last.keys():
                raise ClusterError(
                    f"the change is written, and takes effect when a transaction ends that another program has open on "
                    f"topic {self._settings.topics.quotas}; see mutation-quota status"
                )
            for key, written in [*incomplete.items()]:
                latest, at = cast("R", last[key].record), last[key].timestamp
                whole = _latest(log, latest, to_change(latest, at).moment)
                if whole is None or latest.cancelled or is_complete(latest, at, whole):
                    done.append((latest, max(at, written.effective_at or 0)))
                    del incomplete[key]
                else:
                    with_whole = whole.record(written.effective_at)
                    incomplete[key] = replace(with_whole, altered_by=written.altered_by, comment=written.comment)
        (first, *_) = incomplete.values()
        subject = first.entity if isinstance(first, QuotaRecord) else "the callback"
        raise ClusterError(f"{subject} is being changed concurrently by others; see quotas history, then try again")


def write_record(settings: Settings, record: QuotaLogRecord) -> int:
    """Write one change; return when it takes effect [epoch ms]: at the broker's timestamp or a later `effective_at`."""
    (timestamp,) = QuotaWriter(settings).write([record])
    return max(timestamp, record.effective_at or 0)


def publish_cluster(settings: Settings, record: ClusterRecord) -> int | None:
    """Write the metadata of a cluster to the quota log, for callbacks that depend on partitions (KIP-257).

    Returns the time at which it takes effect [epoch ms]; None if the latest record is the same, and not of yesterday:
    the record's age tells whether anybody publishes at all.
    """
    log = read_log(settings, with_entries=True)
    for entry in reversed(log.entries):
        if isinstance(entry.record, ClusterRecord):
            if entry.record.cluster == record.cluster and log.now - entry.timestamp < _PUBLISHED_AGAIN_MS:
                return None
            break
    return write_record(settings, record)


def author() -> str:
    """Return the name to record with a change: the user of the operating system, or the variable `LOGNAME`."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # the user of a container may have a number and no name
        return f"uid {os.getuid()}"


def _latest(log: QuotaLog, record: QuotaRecord | CallbackRecord, at: int) -> QuotaChange | CallbackChange | None:
    """Return the latest change of what a record changes as of a time (epoch ms), with the whole that results."""
    if isinstance(record, QuotaRecord):
        return log.timeline.latest(record.entity, at)
    return log.quotas.settings.latest(at)


class LoggedRates:
    """Reads and alters the rates in the quota log, one call after the other on one thread."""

    def __init__(self, settings: Settings, timeout_seconds: float) -> None:
        """Read the log at the first call; each call may take `timeout_seconds`."""
        self._settings = settings
        self._timeout = timeout_seconds
        self._writer: QuotaWriter | None = None
        self._thread = ThreadPoolExecutor(1, "mutation-quota-rates")

    async def read(self) -> dict[QuotaEntity, float]:
        """Return the rates in force [mutations/s]."""

        def rates(writer: QuotaWriter) -> dict[QuotaEntity, float]:
            log = writer.read()
            return {change.entity: change.quota.rate for change in log.timeline.configured(log.now) if change.quota}

        return await self._call(rates)

    async def alter(self, changes: Mapping[QuotaEntity, float | None], author: str, comment: str) -> None:
        """Set rates, or remove the quotas of those that are None; the changes are acknowledged on return.

        Other configs of the quotas stay. After an error, any of the changes may be made.
        """
        records = {entity: partial(_altered, entity, rate, author, comment) for entity, rate in changes.items()}
        await self._call(lambda writer: writer.alter_quotas(records))

    def close(self) -> None:
        """Wait for the call in progress, and close the connection."""
        self._thread.shutdown(cancel_futures=True)
        if self._writer is not None:
            self._writer.close()

    async def _call(self, use: Callable[[QuotaWriter], T]) -> T:
        """Return the result of a function of the writer, which is replaced after an error; it is logged and raised."""
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

    def _use(self, use: Callable[[QuotaWriter], T]) -> T:
        writer = self._writer = self._writer or QuotaWriter(self._settings)
        try:
            return use(writer)
        except Exception:
            self._writer = None
            writer.close()
            raise


def _altered(entity: QuotaEntity, rate: float | None, author: str, comment: str, present: Quota | None) -> QuotaRecord:
    quota = None
    if rate is not None:
        quota = Quota(rate) if present is None else replace(present, rate=rate)
    return replace(QuotaRecord.of(entity, quota), altered_configs=[RATE_CONFIG], altered_by=author, comment=comment)
