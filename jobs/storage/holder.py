"""The holder of a lease: the processes of a job, and whether they still run if this machine can check it."""

import os
import socket
import uuid
from pathlib import Path
from typing import Self

import msgspec

from quota.kafka.timing import now_ms
from quota.text import format_time

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_PID_NAMESPACE = Path("/proc/self/ns/pid")
_START_TIME = 19
"""The index of the start time in `/proc/PID/stat`, among the fields after the name."""


class Process(msgspec.Struct, frozen=True):
    """A process. A later process with the same id has a different start time."""

    pid: int
    start_time: int | None
    """The start of the process [clock ticks since the boot]; None if the system does not report it."""

    @classmethod
    def of(cls, pid: int) -> Self:
        """Return a running process of this machine."""
        return cls(pid, _start_time(pid))

    @property
    def runs(self) -> bool | None:
        """Whether it runs, if it belongs to this machine; None if the system hides it, as processes of other users."""
        start_time = _start_time(self.pid)
        if start_time is None or self.start_time is None:
            return None if _exists(self.pid) else False
        return start_time == self.start_time


class Holder(msgspec.Struct, frozen=True):
    """A process of a job that holds a lease, according to the file of the lease."""

    id: str = msgspec.field(name="run")
    """A random id."""
    host: str
    machine: str | None
    """The boot of the machine, and the container; None if the system does not report it."""
    program: Process
    jvm: Process
    started_at: int
    """The start of the process, epoch ms by the clock of the host."""
    lease_seconds: float | None = None
    """The duration of its lease [s]; None before it has one."""
    renewals: int = 0
    ended: bool = False
    """Whether the job has released the lease."""

    @classmethod
    def here(cls, jvm_pid: int) -> Self:
        """Return this process and its JVM."""
        machine, host = _machine(), socket.gethostname()
        return cls(uuid.uuid4().hex, host, machine, Process.of(os.getpid()), Process.of(jvm_pid), now_ms())

    @property
    def runs(self) -> bool | None:
        """Whether any of its processes runs; None if it belongs to another machine or container, or is hidden."""
        if self.machine is None or self.machine != _machine():
            return None
        runs = (self.program.runs, self.jvm.runs)
        return True if True in runs else None if None in runs else False

    @property
    def program_runs(self) -> bool:
        """Whether its program runs on this machine; without the program, its JVM exits by itself."""
        return bool(self.runs) and self.program.runs is True

    def __str__(self) -> str:
        return f"process {self.program.pid} on {self.host}, since {format_time(self.started_at)}"


def _machine() -> str | None:
    try:
        return f"{_BOOT_ID.read_text(encoding='ascii').strip()} {_PID_NAMESPACE.readlink()}"
    except OSError:
        return None


def _start_time(pid: int) -> int | None:
    """Return the start time of a process; None if it does not exist or is hidden (hidepid), -1 if it is a zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        return -1 if fields[0] == "Z" else int(fields[_START_TIME])
    except (OSError, ValueError, IndexError):
        return None


def _exists(pid: int) -> bool:
    """Return whether a process exists, even if the system hides it."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:  # a process of another user
        return True
    return True
