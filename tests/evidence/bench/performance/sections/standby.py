"""How long requests wait for a decision when `enforce` ends, with a standby and without, and what a standby costs."""

import signal
import subprocess
import threading
import time
from argparse import Namespace
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from itertools import count, pairwise
from pathlib import Path
from typing import Self

from jobs.sandbox.broker import free_port, with_plaintext_cluster
from quota.settings import Settings, load_settings
from tests.evidence.bench.performance.figure import Figure, Goal, SideError
from tests.evidence.bench.performance.ground import new_deployment, working_folder
from tests.evidence.bench.performance.load import options_of, read, send
from tests.evidence.bench.performance.sections.start import READY
from tests.evidence.bench.performance.size import Size
from tests.evidence.command import Notify
from tests.evidence.percentiles import percentile
from tests.support.deployment import as_options, with_sections
from tests.support.programs import child_processes, command_line, has_ended, processor_seconds
from tests.support.waiting import until

RATE = 20.0
"""Requests/s while processes end and take over."""

RESTART = "kill -9 and a restart, without a standby"
STOPPED, KILLED = "clean stop, with a standby", "kill -9, with a standby"
ELSEWHERE = "kill -9, with a standby on another machine"
P99, LATER = "p99 of the first minute after a takeover", "p99 of a later minute, while another standby waits"
MEMORY, PROCESSOR = "memory of a standby that waits", "processor time of a standby that waits"

TENTH, LEASE, TWICE = Goal(0.1), Goal(1.1), Goal(2.0)

_WARM = "ready to take over"
_SECONDS = 600.0
_LAST_SECONDS = 3600.0


class Load:
    """Requests at a steady rate, and when each was sent and first answered, by its id [s, monotonic]."""

    def __init__(self, settings: Settings) -> None:
        self._options = Namespace(**options_of(settings, RATE, seconds=_LAST_SECONDS, warm=0.0))
        self.sent: dict[str, float] = {}
        self.answered: dict[str, float] = {}

    @contextmanager
    def running(self) -> Iterator[None]:
        """Send requests inside the block.

        Raises:
            SideError: A request is without an answer.
        """
        reading, read_all, sent_all = threading.Event(), threading.Event(), threading.Event()
        threads = [
            threading.Thread(target=read, args=(self._options, self.answered, reading, read_all)),
            threading.Thread(target=send, args=(self._options, self.sent, sent_all)),
        ]
        try:
            threads[0].start()
            reading.wait(_SECONDS)
            threads[1].start()
            yield
            sent_all.set()
            threads[1].join()
            with suppress(AssertionError):
                until(lambda: len(self.answered) >= len(self.sent))
        finally:
            sent_all.set()
            read_all.set()
        if unanswered := len(self.sent) - len(self.answered):
            raise SideError(f"standby: {unanswered} of {len(self.sent)} requests without an answer")

    def wait(self) -> float:
        """Wait until a request is answered that is sent after this call, and return the time of the call."""
        began = time.monotonic()
        until(lambda: any(self.sent[name] > began for name in list(self.answered)[-100:]), _SECONDS, 0.05)
        return began

    def pause(self, began: float) -> tuple[float, float]:
        """Return the longest time without an answer that has ended since then, and its end."""
        times = sorted(self.answered.copy().values())
        return max((after - before, after) for before, after in pairwise(times) if after > began)

    def latencies(self, began: float, ended: float) -> list[float]:
        """Return how long the answers took to the requests that were sent in a period [ms]."""
        answered = self.answered.copy()
        return [(at - self.sent[name]) * 1000 for name, at in answered.items() if began <= self.sent[name] < ended]


class Enforce:
    """A process of `enforce`, which is killed at the end of the block, and has ended with its JVM after it."""

    def __init__(self, settings: Settings, log: Path, boot: Path | None = None) -> None:
        """Start it; with another file of a boot id it takes this machine for another one."""
        own = [f"storage.root={settings.storage.root}", f"metrics.port={free_port()}"]
        constants = None if boot is None else {"jobs.storage.holder._BOOT_ID": boot}
        self._log = log
        with log.open("wb") as output:
            command = command_line("enforce", *as_options(settings, *own), constants=constants)
            self._process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pids = self._pids()
        self._process.kill()
        self._process.wait()
        until(lambda: all(map(has_ended, pids)))

    def wait_for(self, line: str) -> None:
        """Wait until it logs a line.

        Raises:
            SideError: It has ended.
        """
        printed = ""

        def has_ended_or_logged() -> bool:
            nonlocal printed
            ended, printed = self._process.poll() is not None, self._log.read_text(errors="replace")
            return line in printed or ended

        until(has_ended_or_logged, _SECONDS, 0.05)
        if line not in printed:
            raise SideError(f"standby: enforce has ended with {self._process.returncode}: {printed[-1000:].strip()}")

    def end(self, sent: signal.Signals) -> None:
        """Send it a signal; its JVM ends with it."""
        self._process.send_signal(sent)

    def memory_mib(self) -> float:
        """Return the memory of all its processes, of which shared pages count in part [MiB]."""
        kibibytes = 0
        for pid in self._pids():
            with suppress(OSError):  # it has ended
                lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
                kibibytes += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
        return kibibytes / 1024

    def processor_seconds(self) -> float:
        """Return the processor time that all its processes have taken, with those that have ended [s]."""
        return processor_seconds(self._pids())

    def _pids(self) -> list[int]:
        pids = [self._process.pid]
        for pid in pids:
            pids += child_processes(pid)
        return pids


def standby(address: str, size: Size, notify: Notify) -> list[Figure]:
    """Measure takeovers and restarts in turn; then once what follows a takeover, and one by another machine."""
    taken: dict[str, list[float]] = {}

    def note(what: str, value: float) -> None:
        taken.setdefault(what, []).append(value)
        notify(f"standby: {what}: {value:.3g}")

    with ExitStack() as stack:
        folder = Path(stack.enter_context(working_folder()))
        settings = with_plaintext_cluster(load_settings([f"storage.root={folder}"], environment={}), address)
        settings = with_sections(new_deployment(settings, "standby", folder), storage={"lease_seconds": 0.0})
        numbers, load = count(), Load(settings)
        boot = folder / "boot-id"
        boot.write_text("another\n")

        def start(boot: Path | None = None) -> Enforce:
            return stack.enter_context(Enforce(settings, folder / f"enforce-{next(numbers)}.log", boot))

        def start_standby(boot: Path | None = None) -> Enforce:
            process = start(boot)
            process.wait_for(_WARM)
            return process

        def end(what: str, active: Enforce, sent: signal.Signals, waiting: Enforce | None) -> tuple[Enforce, float]:
            """End the active process; return the next one, and the time of its first decision."""
            began = load.wait()
            active.end(sent)
            following = waiting or start()
            following.wait_for(READY)
            load.wait()
            seconds, first = load.pause(began)
            note(what, seconds)
            return following, first

        active, first = start(), 0.0
        active.wait_for(READY)
        with load.running():
            for _ in range(size.rounds):
                active, _ = end(RESTART, active, signal.SIGKILL, None)
                active, _ = end(STOPPED, active, signal.SIGTERM, start_standby())
                active, first = end(KILLED, active, signal.SIGKILL, start_standby())
            until(lambda: time.monotonic() > first + size.minute, size.minute + 1)
            waiting = start_standby(boot)
            later, before = load.wait(), waiting.processor_seconds()
            time.sleep(size.minute)
            note(PROCESSOR, (waiting.processor_seconds() - before) / size.minute * 100)
            note(MEMORY, waiting.memory_mib())
            for what, since in ((P99, first), (LATER, later)):
                note(what, percentile(load.latencies(since, since + size.minute), 0.99))
            end(ELSEWHERE, active, signal.SIGKILL, waiting)
    runs = {what: tuple(values) for what, values in taken.items()}
    return [
        Figure("standby", STOPPED, "s", runs[STOPPED], RESTART, runs[RESTART], TENTH),
        Figure("standby", KILLED, "s", runs[KILLED], RESTART, runs[RESTART], TENTH),
        Figure("standby", ELSEWHERE, "s", runs[ELSEWHERE], "its lease", (settings.storage.lease,), LEASE),
        Figure("standby", P99, "ms", runs[P99], LATER, runs[LATER], TWICE),
        Figure("standby", MEMORY, "MiB", runs[MEMORY]),
        Figure("standby", PROCESSOR, "% of a core", runs[PROCESSOR]),
    ]
