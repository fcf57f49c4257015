"""The view that other processes have of a lease: its files and its holder."""

import logging
import time
from typing import NamedTuple

import msgspec

from jobs.storage.holder import Holder
from jobs.storage.stored_files import ReadableFiles, numbered
from quota.errors import MutationQuotaError

_log = logging.getLogger(__name__)

_FOLDER = "leases"

RENEWALS = 6
"""The number of renewals during the duration of a lease."""
_POLL_STORE_SECONDS = 1.0

_BOOT_TIME = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class Clock:
    """The clock of leases; it continues while the machine is suspended, if the system has such a clock."""

    def now(self) -> float:
        """Return the time in seconds since an unspecified start."""
        return time.clock_gettime(_BOOT_TIME)

    def sleep(self, seconds: float) -> None:
        """Sleep for a time [s]."""
        time.sleep(seconds)


CLOCK = Clock()


class LeaseError(MutationQuotaError):
    """Another process holds the lease or has acquired it, or it cannot be renewed."""

    def __init__(self, message: str, holder: str | None = None) -> None:
        """Create the error."""
        super().__init__(message)
        self.holder = holder


class Found(NamedTuple):
    """The newest file of a lease; number 0 and text None if there is no file."""

    number: int
    text: str | None

    @property
    def holder(self) -> Holder | None:
        """The holder that wrote it; None if the file is incomplete."""
        try:
            return msgspec.json.decode(self.text or "", type=Holder)
        except msgspec.MsgspecError:
            return None

    def is_of(self, holder: Holder) -> bool:
        """Return whether this run of a job wrote it, and has not released the lease since."""
        found = self.holder
        return found is not None and found.run == holder.run and not found.ended


class Others(NamedTuple):
    """The processes that may hold the lease of a query."""

    files: ReadableFiles
    """The files of the storage root."""
    query: str
    seconds: float
    """The duration of a lease whose file does not contain it [s]."""
    clock: Clock = CLOCK

    @property
    def newest(self) -> Found:
        """The newest file of the lease."""
        return newest(self.files, self.query)

    def check_end(self, found: Found, *, take_over: bool = False) -> None:
        """Return if the holder counts as dead or has released the lease.

        Args:
            take_over: do not wait for a holder on another machine.

        Raises:
            LeaseError: the holder runs.
        """
        began, holder, logged = self.clock.now(), found.holder, False
        # The holder renews by its own setting, which may be longer than the one of this process.
        seconds = (holder and holder.lease_seconds) or self.seconds
        while self.clock.now() - began < seconds:
            if holder is not None and (holder.ended or holder.runs is False or (take_over and holder.runs is None)):
                return
            now = self.newest
            if now.text is None or (now.holder is not None and now.holder.ended):
                return
            if now != found or (holder is not None and holder.program_runs):
                raise _held_by(self.files, self.query, now.holder)
            if not logged:
                logged = True
                _log.warning(
                    "%s: %s may still run here; waiting until its lease is renewed or expires, at most %.0f s",
                    self.query,
                    holder or "another process",
                    seconds,
                )
            self.clock.sleep(min(_POLL_STORE_SECONDS, seconds / RENEWALS))
        if holder is not None and holder.runs:  # its JVM still runs, without its program
            raise _held_by(self.files, self.query, holder)


def check_free(files: ReadableFiles, query: str) -> None:
    """Check that no process of this machine holds the lease of a query; `Lease.claim` checks the rest.

    Raises:
        LeaseError: a process holds it.
    """
    holder = newest(files, query).holder
    if holder is not None and holder.program_runs and not holder.ended:
        raise _held_by(files, query, holder)


def newest(files: ReadableFiles, query: str) -> Found:
    """Return the newest file of a lease."""
    number = max(numbers(files, query), default=0)
    return Found(number, files.read(lease_path(query, number)) if number else None)


def numbers(files: ReadableFiles, query: str) -> list[int]:
    """Return the numbers of the files of a lease."""
    return numbered(files, f"{_FOLDER}/{query}")


def lease_path(query: str, number: int) -> str:
    """Return the path of a file of a lease, below the storage root."""
    return f"{_FOLDER}/{query}/{number}"


def _held_by(files: ReadableFiles, query: str, holder: Holder | None) -> LeaseError:
    who = str(holder or "a process that has just started")
    return LeaseError(
        f"another {query} is running on {files.root}: {who}; stop it first, or set a separate storage.root",
        who,
    )
