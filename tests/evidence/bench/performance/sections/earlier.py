"""A start of `enforce` and a batch of the audit, as separate processes, compared with an earlier commit."""

import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from jobs.audit.query import NAME as AUDIT
from jobs.audit.query import VERSION as AUDIT_VERSION
from jobs.sandbox.broker import with_plaintext_cluster
from quota.kafka.reading import EndOffsets
from quota.settings import Settings, load_settings
from quota.settings.storage import checkpoint_folder
from tests.evidence.bench.performance.backlog import fill
from tests.evidence.bench.performance.figure import Figure, Goal
from tests.evidence.bench.performance.ground import new_deployment, working_folder
from tests.support.checkout import CHECKOUT
from tests.support.deployment import as_options
from tests.support.programs import command_line, environment_of, processor_seconds
from tests.support.waiting import until

EARLIER = "50ec7c5"
"""The last commit whose audit was written by Spark
(docs/decisions/programs/0005-the-audit-appends-what-is-not-there.md), and that had no class archives.
"""

START_GOAL, AUDIT_GOAL = Goal(0.5), Goal(0.2)

USERS = 50
BATCH = 2000
"""Decisions of a batch: those of 200 requests/s in a trigger interval of 10 s."""

_DEADLINE_SECONDS = 600


@dataclass(frozen=True, slots=True)
class Counted:
    """Which batches of the audit count: `runs` runs of `per_run` batches, after those that warm up."""

    warm: int
    """Number of the first ones, which do not count."""
    runs: int
    per_run: int

    @property
    def marks(self) -> list[int]:
        """Numbers of batches at which runs begin and end."""
        return [self.warm + run * self.per_run for run in range(self.runs + 1)]


@contextmanager
def earlier_tree() -> Iterator[Path | None]:
    """Provide a checkout of the earlier commit; None without git, or if the history does not have the commit."""
    git = shutil.which("git")
    known = git and _run_git(git, "cat-file", "-e", f"{EARLIER}^{{commit}}")
    if not known:
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="mutation-quota-") as folder:
        tree = Path(folder) / EARLIER
        _run_git(git, "worktree", "add", "--detach", str(tree), EARLIER)
        try:
            yield tree
        finally:
            _run_git(git, "worktree", "remove", "--force", str(tree))


def compared_with_earlier(
    address: str, tree: Path, rounds: int, counted: Counted, notify: Callable[[str], None], *given: str
) -> list[Figure]:
    """Measure starts in turn, and two audits of the same decisions at once."""
    with working_folder() as folder:
        settings = with_plaintext_cluster(load_settings([f"storage.root={folder}", *given], environment={}), address)
        return [*_starts(settings, folder, tree, rounds, notify), *_audits(settings, folder, tree, counted, notify)]


def _starts(
    settings: Settings, folder: Path, tree: Path, rounds: int, notify: Callable[[str], None]
) -> Iterator[Figure]:
    now, archived = "start to the first decisions", "the same, with a class archive"
    archives = ("--set", f"spark.class_archives={folder / 'archives'}")
    sides = {EARLIER: (tree, ()), now: (CHECKOUT, ()), archived: (CHECKOUT, archives)}
    deployments = {side: new_deployment(settings, f"start-{number}", folder) for number, side in enumerate(sides)}
    taken: dict[str, list[float]] = {side: [] for side in sides}
    for turn in range(rounds + 1):
        for side, (code, options) in sides.items():
            seconds = _start_seconds(code, deployments[side], *options)
            if turn:  # the first round fills the system's cache of files, and writes the archive
                taken[side].append(seconds)
                notify(f"start: round {turn}, {side}: {seconds:.1f} s")
    for side, goal in ((now, None), (archived, START_GOAL)):
        yield Figure("earlier", side, "s", tuple(taken[side]), EARLIER, tuple(taken[EARLIER]), goal)


def _start_seconds(code: Path, settings: Settings, *options: str) -> float:
    """Return the seconds from the start of the process until waiting requests are decided."""
    ends = EndOffsets(settings.kafka.connection, settings.kafka.timeout_seconds)
    partitions = [(settings.topics.decisions, number) for number in range(settings.topics.partitions)]

    def decided() -> int:
        return sum(ends.fetch(partitions).values())

    before = decided()
    fill(settings, USERS, USERS)
    began = time.monotonic()
    with _running(code, "enforce", settings, *options) as process:
        until(lambda: decided() >= before + USERS or process.poll() is not None, _DEADLINE_SECONDS, 0.05)
        return time.monotonic() - began


def _audits(
    settings: Settings, folder: Path, tree: Path, counted: Counted, notify: Callable[[str], None]
) -> Iterator[Figure]:
    decided = new_deployment(settings, "audited", folder)
    requests = (counted.marks[-1] + 1) * BATCH
    notify(f"audit: {requests:,} requests decided for two audits at once")
    fill(decided, requests, USERS)
    subprocess.run(command_line("enforce", "--once", *_options(decided)), check=True, capture_output=True, cwd=CHECKOUT)
    bounds = ("--set", f"audit.max_records_per_batch={BATCH}", "--set", "audit.trigger_seconds=1")
    sides = {EARLIER: (tree, "earlier"), AUDIT: (CHECKOUT, "now")}
    with ExitStack() as stack:
        watched = {}
        for side, (code, root) in sides.items():
            own = decided.model_copy(
                update={"storage": decided.storage.model_copy(update={"root": str(folder / root)})}
            )
            watched[side] = (stack.enter_context(_running(code, "audit", own, *bounds)), folder / root)
        used = _seconds_at_marks(watched, counted.marks)
    runs = {side: _per_batch(of_side, counted.per_run) for side, of_side in used.items()}
    for side, of_side in runs.items():
        notify(f"audit: {side}: {', '.join(f'{each:.2f}' for each in of_side)} s of processor time a batch")
    what = f"the audit's processor time for a batch of {BATCH:,} decisions"
    yield Figure("earlier", what, "s", runs[AUDIT], EARLIER, runs[EARLIER], AUDIT_GOAL)


def _seconds_at_marks(
    watched: Mapping[str, tuple[subprocess.Popen[bytes], Path]], marks: list[int]
) -> dict[str, list[float]]:
    """Return the processor seconds of each audit at the time when it has committed each batch of `marks`."""
    used: dict[str, list[float]] = {side: [] for side in watched}

    def step() -> bool:
        for side, (process, root) in watched.items():
            if process.poll() is not None:
                raise RuntimeError(f"the audit of {side} has ended with exit code {process.returncode}")
            commits = root / checkpoint_folder(AUDIT, AUDIT_VERSION) / "commits"
            while len(used[side]) < len(marks) and (commits / str(marks[len(used[side])])).exists():
                used[side].append(processor_seconds(process.pid))
        return all(len(of_side) == len(marks) for of_side in used.values())

    until(step, _DEADLINE_SECONDS, 0.05)
    return used


def _per_batch(used: list[float], batches: int) -> tuple[float, ...]:
    return tuple((after - before) / batches for before, after in pairwise(used))


def _options(settings: Settings) -> list[str]:
    return [*as_options(settings), "--set", f"storage.root={settings.storage.root}"]


@contextmanager
def _running(code: Path, command: str, settings: Settings, *options: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run a command of the code in a folder inside the block."""
    jars = ("--set", f"spark.jars={CHECKOUT / settings.spark.jars}")
    process = subprocess.Popen(
        command_line(command, *_options(settings), *jars, *options),
        cwd=code,
        env=environment_of(code),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(_DEADLINE_SECONDS)


def _run_git(git: str, *args: str) -> bool:
    return subprocess.run([git, "-C", str(CHECKOUT), *args], capture_output=True, check=False).returncode == 0
