"""The rates in the quota log, for a program with an event loop."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar

from msgspec.structs import replace

from quota.errors import ClusterError, MutationQuotaError
from quota.kafka.quotas.log import QuotaLog, read_log
from quota.kafka.quotas.writer import QuotaWriter, alter_quotas
from quota.records.entity import QuotaEntity
from quota.records.quota_log import RATE_CONFIG, Quota, QuotaRecord
from quota.settings import Settings
from quota.timeline.change import quota_record

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
