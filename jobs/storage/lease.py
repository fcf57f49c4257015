"""The lease of a query, which ensures that only one process at a time runs it on a storage root.

A lease is a sequence of files, `leases/<query>/<number>`. The process that creates the next file holds the lease, and
all others have lost it; the file system only has to reject the second of two processes that create the same file. The
holder renews the lease by writing its own file again, which no other process writes. Clocks are never compared: a
holder on another machine counts as dead if its file does not change for the duration of its lease, which the file
contains, and a holder that could not renew its lease stops itself earlier than that.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import NamedTuple

import msgspec
from msgspec.structs import replace
from py4j.protocol import Py4JError  # type: ignore[import-untyped]

from jobs.background import background
from jobs.spark.failures import reason_in
from jobs.spark.session import HaltTimer
from jobs.storage.holder import Holder
from jobs.storage.stored_files import Files, ReadableFiles, numbered
from quota.errors import MutationQuotaError
from quota.kafka.timing import now_ms

_log = logging.getLogger(__name__)

_GIVES_UP = 2 / 3
"""The share of the lease's duration after which a holder that cannot renew it stops itself."""
_RENEWALS = 6
"""The number of renewals during the duration of a lease."""
_POLL_SECONDS = 0.2
_POLL_STORE_SECONDS = 1.0
_JOIN_SECONDS = 5.0

_BOOT_TIME = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)

_STORE_ERRORS = (Py4JError, OSError, MutationQuotaError)


class LeaseError(MutationQuotaError):
    """Another process holds the lease."""


class LeaseLost(LeaseError):
    """Another process has acquired the lease, or it could not be renewed."""


class _LeaseFile(NamedTuple):
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
        """Return whether this holder wrote it, and has not released the lease since."""
        writer = self.holder
        return writer is not None and writer.id == holder.id and not writer.ended


class Clock:
    """The clock of leases; it continues while the machine is suspended, if the system has such a clock."""

    def now(self) -> float:
        """Return the time in seconds since an unspecified start."""
        return time.clock_gettime(_BOOT_TIME)

    def sleep(self, seconds: float) -> None:
        """Sleep for a time [s]."""
        time.sleep(seconds)


class LeaseWatch:
    """Looks at the lease of a query, and for how long its file has not changed: from the first look of a process on.

    The first look may be long before the lease can be claimed: before there is a JVM.
    """

    def __init__(self, query: str, clock: Clock | None = None) -> None:
        self.query = query
        self.clock = clock or Clock()
        self.newest = _LeaseFile(0, None)
        """The newest file of the lease, as of the last look."""
        self._since = 0.0

    def look(self, files: ReadableFiles) -> _LeaseFile:
        """Look at the newest file of the lease, and return it."""
        newest = _newest(files, self.query)
        if newest != self.newest:  # the time after it was read: its holder wrote it earlier than that
            self.newest, self._since = newest, self.clock.now()
        return newest

    @property
    def unchanged_seconds(self) -> float:
        """The time since the first of the looks that have found this file."""
        return self.clock.now() - self._since


class Lease:
    """The lease of one query, from the view of one process."""

    def __init__(self, files: Files, watch: LeaseWatch, seconds: float, me: Holder) -> None:
        """Create a lease that is not held; `claim` acquires it."""
        self.lost: LeaseLost | None = None
        """The reason why this process no longer holds the lease."""
        self.renew_seconds = seconds / _RENEWALS
        self._files = files
        self._watch = watch
        self._query = watch.query
        self._seconds = seconds
        self._me = replace(me, lease_seconds=seconds)
        self._clock = watch.clock
        self._number = 0
        self._renewed_at = 0.0
        self._reason = "the store does not respond"

    def claim(self, *, take_over: bool = False) -> None:
        """Acquire the lease; wait for a holder that may be dead, at most until its lease expires. If it runs, raise.

        The operator who sets `take_over` knows that a holder on another machine has ended: it is not waited for.
        """
        found = None
        while not self.try_claim(take_over=take_over):
            newest = self._watch.newest
            holder = newest.holder
            seconds = self._expires_after(holder)
            left = seconds - self._watch.unchanged_seconds
            if newest != (found or newest) or (holder is not None and (holder.program_runs or left <= 0)):
                raise _held_by(self._files, self._query, holder)
            if found is None:
                found = newest
                _log.warning(
                    "%s: %s may still run here; waiting until its lease is renewed or expires, at most %.0f s",
                    self._query,
                    holder or "another process",
                    left,
                )
            self._clock.sleep(min(_POLL_STORE_SECONDS, seconds / _RENEWALS))

    @property
    def holder(self) -> Holder | None:
        """The holder of the lease, as of the last look; None if nobody has held it."""
        return self._watch.newest.holder

    def is_free(self, *, take_over: bool = False) -> bool:
        """Look whether nobody holds the lease, or its holder counts as dead; `take_over` as for `claim`.

        A JVM that has outlived its program is killed, and the lease is free once it has ended.
        """
        newest = self._watch.look(self._files)
        return newest.is_of(self._me) or self._is_free(newest, take_over=take_over)

    def try_claim(self, *, take_over: bool = False) -> bool:
        """Acquire the lease if nobody holds it, or if its holder counts as dead; return whether it was acquired."""
        # The file is read back because its creation may have succeeded although it was reported as rejected: an S3
        # client that gets no response retries, and its second attempt conflicts with the first.
        while not (newest := self._watch.look(self._files)).is_of(self._me):
            if not self._is_free(newest, take_over=take_over):
                return False
            self._me = replace(self._me, started_at=now_ms())
            self._renewed_at = self._clock.now()
            self._files.create(_lease_path(self._query, newest.number + 1), self._text())
        self._number = newest.number
        if self._files.create(_lease_path(self._query, self._number), self._text()):
            _log.warning(
                "%s does not support conditional writes (If-None-Match), so two jobs that start at the same time may "
                "both run; use a store that supports them",
                self._files.root,
            )
        for name in numbered(self._files, f"leases/{self._query}"):
            if name < self._number:
                self._files.remove(_lease_path(self._query, name))
        return True

    def _is_free(self, newest: _LeaseFile, *, take_over: bool) -> bool:
        holder = newest.holder
        runs = holder and holder.runs
        if newest.text is None or (holder is not None and (holder.ended or runs is False)):
            return True
        if holder is not None and runs and not holder.program_runs:
            holder.kill_jvm()
            return False
        if take_over and holder is not None and runs is None:
            return True
        return self._watch.unchanged_seconds >= self._expires_after(holder)

    def _expires_after(self, holder: Holder | None) -> float:
        """Return the duration of a lease [s] by its holder's setting, which may differ from that of this process."""
        return (holder and holder.lease_seconds) or self._seconds

    @property
    def left_seconds(self) -> float:
        """The time until the holder has to stop itself, unless it renews the lease [s]."""
        return self._seconds * _GIVES_UP - (self._clock.now() - self._renewed_at)

    def renew(self) -> None:
        """Renew the lease, or detect that another process holds it."""
        began = self._clock.now()
        try:
            if not self._is_mine():
                by = _newest(self._files, self._query).holder or "an operator"
                self._lose(f"{self._query} has lost its lease on {self._files.root} to {by}, and has stopped")
                return
            self._me = replace(self._me, renewals=self._me.renewals + 1)
            self._files.write(_lease_path(self._query, self._number), self._text())
        except _STORE_ERRORS as error:
            self._reason = reason_in(str(error) or type(error).__name__)
        else:
            self._renewed_at = began

    def check(self) -> None:
        """Detect that the lease was not renewed in time."""
        if self.left_seconds < 0:
            unrenewed = self._clock.now() - self._renewed_at
            self._lose(
                f"{self._query} could not renew its lease on {self._files.root} for {unrenewed:.0f} s "
                f"({self._reason}) and has stopped, before another process takes over; start it again: nothing is lost"
            )

    def release(self) -> None:
        """Release the lease, if it is still held and the store responds."""
        if self.lost is None:
            with suppress(*_STORE_ERRORS):
                if self._is_mine():
                    self._files.write(_lease_path(self._query, self._number), self._text(ended=True))

    def _lose(self, why: str) -> None:
        self.lost = self.lost or LeaseLost(why)

    def _is_mine(self) -> bool:
        newest = _newest(self._files, self._query)
        return newest.number == self._number and newest.is_of(self._me)

    def _text(self, *, ended: bool = False) -> str:
        return msgspec.json.encode(replace(self._me, ended=ended)).decode()


@contextmanager
def hold_lease(
    lease: Lease, timer: HaltTimer, on_loss: Callable[[], None], finish: Callable[[], bool], *, take_over: bool = False
) -> Iterator[None]:
    """Hold a lease inside the block: renew it, and release it when all writers have stopped.

    `on_loss` is called on another thread when the lease is lost; it must prevent all further writes. The timer does so
    by itself when this process is stopped. `finish` is called at the end of the block, also after an error, and before
    the last renewal. It stops all writers, and returns whether they have stopped; if they have not, the lease is not
    released, and expires.
    """
    lease.claim(take_over=take_over)
    finished = False

    def watch(stop: threading.Event) -> None:
        while not stop.wait(_POLL_SECONDS):
            lease.check()
            if lease.lost is not None:
                on_loss()
                return

    try:
        with (
            background(partial(_renew, lease, timer), "lease", _JOIN_SECONDS),
            background(watch, "lease-watch", _JOIN_SECONDS),
        ):
            try:
                yield
            finally:
                finished = finish()
    except Exception:
        lease.check()  # after a stop of this process, what it has caused is noticed first
        if lease.lost is not None:
            raise lease.lost from None
        raise
    finally:
        timer.cancel()
        if finished:
            lease.release()
    if lease.lost is not None:
        raise lease.lost


def _renew(lease: Lease, timer: HaltTimer, stop: threading.Event) -> None:
    while lease.lost is None and not stop.is_set():
        with suppress(Py4JError, OSError):  # the JVM may have exited
            timer.set(lease.left_seconds)
        if not stop.wait(lease.renew_seconds):
            lease.renew()


def read_holder(files: ReadableFiles, query: str) -> Holder | None:
    """Return who held the lease of a query last; None if nobody has run it."""
    return _newest(files, query).holder


def check_free(files: ReadableFiles, watch: LeaseWatch) -> None:
    """Check that no process of this machine holds the lease of a query; `Lease.claim` checks the rest."""
    holder = watch.look(files).holder
    if holder is not None and holder.program_runs and not holder.ended:
        raise _held_by(files, watch.query, holder)


def _newest(files: ReadableFiles, query: str) -> _LeaseFile:
    number = max(numbered(files, f"leases/{query}"), default=0)
    return _LeaseFile(number, files.read(_lease_path(query, number)) if number else None)


def _lease_path(query: str, number: int) -> str:
    return f"leases/{query}/{number}"


def _held_by(files: ReadableFiles, query: str, holder: Holder | None) -> LeaseError:
    who = holder or "a process that has just started"
    return LeaseError(
        f"another {query} is running on {files.root}: {who}; stop it first, or set a separate storage.root"
    )
