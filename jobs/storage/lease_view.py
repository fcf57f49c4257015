"""The files of a lease, and who holds it according to them."""

from typing import NamedTuple

import msgspec

from jobs.storage.holder import Holder
from jobs.storage.stored_files import ReadableFiles, numbered
from quota.errors import MutationQuotaError

_FOLDER = "leases"


class LeaseError(MutationQuotaError):
    """Another process holds the lease or has acquired it, or it cannot be renewed."""

    def __init__(self, message: str, holder: str | None = None) -> None:
        super().__init__(message)
        self.holder = holder
        """The process that holds the lease."""


class LeaseFile(NamedTuple):
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
        writer = self.holder
        return writer is not None and writer.run == holder.run and not writer.ended


def check_free(files: ReadableFiles, query: str) -> None:
    """Check that no process of this machine holds the lease of a query; `Lease.claim` checks the rest."""
    holder = newest(files, query).holder
    if holder is not None and holder.program_runs and not holder.ended:
        raise held_by(files, query, holder)


def newest(files: ReadableFiles, query: str) -> LeaseFile:
    """Return the newest file of a lease."""
    number = max(numbers(files, query), default=0)
    return LeaseFile(number, files.read(lease_path(query, number)) if number else None)


def numbers(files: ReadableFiles, query: str) -> list[int]:
    """Return the numbers of the files of a lease."""
    return numbered(files, f"{_FOLDER}/{query}")


def lease_path(query: str, number: int) -> str:
    """Return the path of a file of a lease, below the storage root."""
    return f"{_FOLDER}/{query}/{number}"


def held_by(files: ReadableFiles, query: str, holder: Holder | None) -> LeaseError:
    """Return the error of a lease that is held."""
    who = str(holder or "a process that has just started")
    return LeaseError(
        f"another {query} is running on {files.root}: {who}; stop it first, or set a separate storage.root", who
    )
