"""The current step of a job's batch, from its checkpoints, topics and tables."""

import json
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from jobs.audit.query import VERSION as AUDIT_VERSION
from jobs.query_names import AUDIT, ENFORCE
from quota.settings.storage import checkpoint_folder
from schemas.buckets import STATE_VERSION
from tests.evidence.chaos.records import Reader, source_of


class Step(Enum):
    """Steps of a batch in order."""

    BEFORE_OFFSETS = "requests are waiting, the next batch's offsets are not logged"
    OFFSETS = "offsets logged, no decision written"
    SOME_DECIDED = "some decisions written, no state committed"
    ALL_DECIDED = "all decisions written, no state committed"
    STATE_IN_PART = "state committed in one of two partitions"
    STATE = "state committed, not all decisions written"
    BEFORE_COMMIT = "decisions written and state committed, batch not committed"
    IDLE = "batch committed, no request waiting"


class AuditStep(Enum):
    """Steps of a batch of the audit in order."""

    BETWEEN = "between two batches"
    OFFSETS = "offsets logged, no data written"
    FILES = "data files written, not committed to Delta"
    DELTA = "decisions committed to Delta, batch not committed"


@dataclass(frozen=True, slots=True)
class Written:
    """The writes of the enforcing query's latest batch so far."""

    batch: int | None
    """The latest batch whose offsets are logged."""
    committed: bool
    requested: frozenset
    """The requests of the batch: partition and offset of each."""
    answered: frozenset
    """The requests that the process has answered."""
    states: int
    """Number of committed state partitions."""
    partitions: int
    waiting: bool
    """Whether there are requests after the last batch."""


def enforce_step(written):
    """Return the step of a batch of the enforcing query."""
    if written.batch is None or written.committed:
        return Step.BEFORE_OFFSETS if written.waiting else Step.IDLE
    answered = len(written.requested & written.answered)
    if written.states == 0:
        if not answered:
            return Step.OFFSETS
        return Step.SOME_DECIDED if answered < len(written.requested) else Step.ALL_DECIDED
    if written.states < written.partitions:
        return Step.STATE_IN_PART
    return Step.STATE if answered < len(written.requested) else Step.BEFORE_COMMIT


class Watch:
    """Watches the writes of a job's current process."""

    def __init__(self, settings):
        """Connect to the broker."""
        topics = settings.topics
        self._answers = Reader(settings, [topics.decisions, topics.dead_letters])
        self._requests = Reader(settings, [topics.requests])
        self._answered = set()
        self._enforce = Path(settings.storage.url, checkpoint_folder(ENFORCE, STATE_VERSION))
        self._audit = Path(settings.storage.url, checkpoint_folder(AUDIT, AUDIT_VERSION))
        self._table = Path(settings.storage.table("decisions"))
        self._partitions = settings.enforce.state_partitions

    def begin(self):
        """Forget earlier answers, which another process wrote."""
        self._answers.read_new()
        self._answered.clear()

    def close(self):
        """Close the connections."""
        self._answers.close()
        self._requests.close()

    @property
    def batches(self):
        """The latest committed batches of the enforcing query and of the audit."""
        return latest_batch(self._enforce / "commits"), latest_batch(self._audit / "commits")

    def near(self, step):
        """Return whether the files look like a step: a quick check that answers and requests may contradict."""
        if isinstance(step, AuditStep):
            return self.audit_step() is step
        batch = latest_batch(self._enforce / "offsets")
        if batch is None or batch == latest_batch(self._enforce / "commits"):
            return step in {Step.BEFORE_OFFSETS, Step.IDLE}
        states = self._states(batch + 1)
        if states == 0:
            return step in {Step.OFFSETS, Step.SOME_DECIDED, Step.ALL_DECIDED}
        return step in ({Step.STATE_IN_PART} if states < self._partitions else {Step.STATE, Step.BEFORE_COMMIT})

    def at(self, step):
        """Return whether a job that is frozen or dead is at a step."""
        return step is (self.audit_step() if isinstance(step, AuditStep) else self.enforce_step())

    def enforce_step(self):
        """Return the step of the enforcing query."""
        self._answered |= {source_of(answer) for answer in self._answers.read_new()}
        batch = latest_batch(self._enforce / "offsets")
        ended = _offsets(self._enforce, batch)
        began = _offsets(self._enforce, None if batch is None else batch - 1)
        ends = {str(partition): end for (_, partition), end in self._requests.ends().items()}
        requested = {(int(number), offset) for number in ended for offset in range(began.get(number, 0), ended[number])}
        written = Written(
            batch,
            committed=batch is not None and batch == latest_batch(self._enforce / "commits"),
            requested=frozenset(requested),
            answered=frozenset(self._answered),
            states=0 if batch is None else self._states(batch + 1),
            partitions=self._partitions,
            waiting=any(end > ended.get(partition, 0) for partition, end in ends.items()),
        )
        return enforce_step(written)

    def _states(self, version):
        folder = self._enforce / "state" / "0"
        return sum((folder / str(partition) / f"{version}.changelog").exists() for partition in range(self._partitions))

    def audit_step(self):
        """Return the step of the audit."""
        batch = latest_batch(self._audit / "offsets")
        if batch is None or batch == latest_batch(self._audit / "commits"):
            return AuditStep.BETWEEN
        begun = (self._audit / "offsets" / str(batch)).stat().st_mtime
        for step, files in ((AuditStep.DELTA, "_delta_log/*.json"), (AuditStep.FILES, "date=*/*.parquet")):
            if any(file.stat().st_mtime > begun for file in self._table.glob(files)):
                return step
        return AuditStep.OFFSETS


def latest_batch(folder):
    """Return the latest batch of a log; None before the first."""
    return max((int(file.name) for file in folder.glob("[0-9]*")), default=None)


def _offsets(checkpoint, batch):
    """Return the end offsets of a batch by partition; empty if there is no such batch."""
    file = checkpoint / "offsets" / str(batch)
    return next(iter(json.loads(file.read_text().splitlines()[-1]).values())) if file.exists() else {}
