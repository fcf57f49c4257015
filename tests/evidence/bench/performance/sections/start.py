"""A start of `enforce` as a process until waiting requests are decided."""

import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from jobs.sandbox.broker import with_plaintext_cluster
from quota.kafka.topics.topic_admin import TopicAdmin
from quota.settings import Settings, load_settings
from tests.evidence.bench.performance.backlog import fill
from tests.evidence.bench.performance.figure import Figure, Goal, SideError
from tests.evidence.bench.performance.ground import new_deployment, working_folder
from tests.evidence.bench.performance.size import Size
from tests.evidence.command import Notify
from tests.support.deployment import as_options
from tests.support.programs import command_line
from tests.support.waiting import until

USERS = 50
PLAIN, ARCHIVED = "start to the first decisions", "the same, with a class archive"
GOAL = Goal(0.45)
READY = "running: enforce"
"""What the job logs once it decides in the usual time."""


def start(address: str, size: Size, notify: Notify) -> list[Figure]:
    """Measure starts with and without an archive in turn; the first round does not count."""
    with working_folder() as name:
        folder = Path(name)
        settings = with_plaintext_cluster(load_settings([f"storage.root={folder}"], environment={}), address)
        sides: dict[str, tuple[str, ...]] = {
            PLAIN: (),
            ARCHIVED: ("--set", f"spark.class_archives={folder / 'archives'}"),
        }
        deployments = {side: new_deployment(settings, f"start-{number}", folder) for number, side in enumerate(sides)}
        taken: dict[str, list[float]] = {side: [] for side in sides}
        for turn in range(size.rounds + 1):
            for side, options in sides.items():
                seconds = _start_seconds(deployments[side], folder / "enforce.log", *options)
                notify(f"start: round {turn}, {side}: {seconds:.1f} s")
                if turn:  # the first round fills the system's cache of files, and writes the archive
                    taken[side].append(seconds)
    return [
        Figure("start", PLAIN, "s", tuple(taken[PLAIN])),
        Figure("start", ARCHIVED, "s", tuple(taken[ARCHIVED]), PLAIN, tuple(taken[PLAIN]), GOAL),
    ]


def _start_seconds(settings: Settings, log: Path, *options: str) -> float:
    """Return the seconds from the start of the process until waiting requests are decided."""
    topics = TopicAdmin(settings.kafka.connection, settings.kafka.timeout_seconds)
    partitions = [(settings.topics.decisions, number) for number in range(settings.topics.partitions)]

    def decided() -> int:
        return sum(topics.offsets(partitions).values())

    before = decided()
    fill(settings, USERS, USERS)
    command = command_line("enforce", *as_options(settings, f"storage.root={settings.storage.root}"), *options)
    return seconds_until(lambda: decided() >= before + USERS, command, READY, log)


def seconds_until(
    condition: Callable[[], bool],
    command: Sequence[str],
    ready: str,
    log: Path,
    *,
    deadline_seconds: float = 600.0,
) -> float:
    """Return the seconds from the start of a process until a condition holds.

    The process must also write `ready`, which may come later; then SIGTERM ends it. Its output goes to the log. The
    deadline is that of the condition, again that of `ready`, and again that of the end.
    """
    with log.open("wb") as output:
        began = time.monotonic()
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
    try:
        until(lambda: process.poll() is not None or condition(), deadline_seconds, 0.05)
        seconds = time.monotonic() - began
        until(lambda: process.poll() is not None or ready in log.read_text(errors="replace"), deadline_seconds, 0.05)
        ended = process.poll() is not None
        process.send_signal(signal.SIGTERM)
        code = process.wait(deadline_seconds)
    finally:
        process.kill()
        process.wait()
    printed = log.read_text(errors="replace")
    if ended or code:
        raise SideError(f"{' '.join(command[:4])} cannot be measured: it ended with {code}: {printed[-1000:].strip()}")
    return seconds
