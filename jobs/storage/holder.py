"""The holder of a lease: the processes of a job, and whether they still run if this machine can check it."""

import os
import signal
import socket
from contextlib import suppress
from pathlib import Path
from typing import Self
from uuid import uuid4

import msgspec

from jobs.spark.jvm import is_alive
from quota.kafka.timing import now_ms
from quota.text import format_time

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_NAMESPACES = Path("/proc/self/ns")
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
    """The name of its sign of life (`jobs.spark.jvm.SignOfLife`)."""
    host: str
    machine: str | None
    """The boot of the machine, and the namespace of its processes; None if the system does not report it."""
    program: Process
    jvm: Process
    started_at: int
    """The time at which it acquired the lease, epoch ms by the clock of the host."""
    lease_seconds: float | None = None
    """The duration of its lease [s]; None before it has one."""
    renewals: int = 0
    ended: bool = False
    """Whether the job has released the lease."""
    network: str | None = None
    """The boot of the machine, and the network in which its sign of life can be seen; None if it has none.

    The containers of a Kubernetes pod have the same network, also after a restart, and not the same processes.
    """

    @classmethod
    def here(cls, jvm_pid: int, sign_of_life: str | None) -> Self:
        """Return this process and its JVM, with the name of their sign of life."""
        processes, network = _machine("pid"), _machine("net") if sign_of_life else None
        program, jvm, host = Process.of(os.getpid()), Process.of(jvm_pid), socket.gethostname()
        return cls(sign_of_life or uuid4().hex, host, processes, program, jvm, now_ms(), network=network)

    @property
    def runs(self) -> bool | None:
        """Whether any of its processes runs; None if this machine or container cannot tell."""
        if self.machine is None or self.machine != _machine("pid"):
            is_seen = self.network is not None and self.network == _machine("net")
            return False if is_seen and not is_alive(self.id) else None
        runs = (self.program.runs, self.jvm.runs)
        return True if True in runs else None if None in runs else False

    @property
    def program_runs(self) -> bool:
        """Whether its program runs on this machine; without the program, its JVM exits by itself."""
        return bool(self.runs) and self.program.runs is True

    def kill_jvm(self) -> None:
        """Kill its JVM if only that runs, on this machine: it exits by itself, but takes half a second or hangs."""
        if self.runs and self.program.runs is False:
            with suppress(OSError):
                os.kill(self.jvm.pid, signal.SIGKILL)

    def __str__(self) -> str:
        return f"process {self.program.pid} on {self.host}, since {format_time(self.started_at)}"


def _machine(namespace: str) -> str | None:
    """Return the boot of this machine and a namespace of this process; None if the system does not report them.

    The number of a namespace that has ended may be used again: its processes have ended with it.
    """
    try:
        return f"{_BOOT_ID.read_text(encoding='ascii').strip()} {(_NAMESPACES / namespace).readlink()}"
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
