"""Where in a batch a job stood, by what it has written: the checkpoints, the topics and the tables."""

import json
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from jobs.audit.query import NAME as AUDIT
from jobs.audit.query import VERSION as AUDIT_VERSION
from jobs.enforce.query import NAME as ENFORCE
from quota.settings.storage import checkpoint_path, table_path
from schemas.buckets import STATE_VERSION
from tests.evidence.chaos.evidence import Reader, source_of


class Step(Enum):
    """Steps of a batch, in their order."""

    BEFORE_OFFSETS = "requests wait, the next batch's offsets are not logged"
    OFFSETS = "offsets logged, nothing decided"
    SOME_DECIDED = "some decisions written, no state committed"
    ALL_DECIDED = "all decisions written, no state committed"
    STATE_IN_PART = "state committed in one partition of two"
    STATE = "state committed, not all decisions written"
    BEFORE_COMMIT = "decisions written, state committed, batch not"
    IDLE = "batch committed, no request waits"


class AuditStep(Enum):
    """Steps of a batch of the audit, in their order."""

    BETWEEN = "between two batches"
    OFFSETS = "offsets logged, no data written"
    FILES = "data files written, before the Delta commit"
    DELTA = "after the Delta commit of the decisions, batch not committed"


@dataclass(frozen=True, slots=True)
class Written:
    """What a batch of the enforcing query has left so far."""

    batch: int | None
    """The latest whose offsets are logged."""
    committed: bool
    asked: frozenset
    """The requests of the batch: partition and offset of each."""
    answered: frozenset
    """Those that the process has answered."""
    states: int
    """How many of the state's partitions are committed."""
    partitions: int
    waiting: bool
    """Whether requests are there that no batch has."""


def enforce_step(written):
    """The step that a batch of the enforcing query is at."""
    if written.batch is None or written.committed:
        return Step.BEFORE_OFFSETS if written.waiting else Step.IDLE
    answered = len(written.asked & written.answered)
    if written.states == 0:
        if not answered:
            return Step.OFFSETS
        return Step.SOME_DECIDED if answered < len(written.asked) else Step.ALL_DECIDED
    if written.states < written.partitions:
        return Step.STATE_IN_PART
    return Step.STATE if answered < len(written.asked) else Step.BEFORE_COMMIT


class Watch:
    """Looks at what the present process of a job has written."""

    def __init__(self, settings):
        """Connect."""
        topics = settings.topics
        self._answers = Reader(settings, [topics.decisions, topics.dead_letters])
        self._requests = Reader(settings, [topics.requests])
        self._answered = set()
        self._enforce = Path(checkpoint_path(settings, ENFORCE, STATE_VERSION))
        self._audit = Path(checkpoint_path(settings, AUDIT, AUDIT_VERSION))
        self._table = Path(table_path(settings, "decisions"))
        self._partitions = settings.enforce.state_partitions

    def begin(self):
        """Forget what was answered so far: that is an earlier process's."""
        self._answers.read_on()
        self._answered.clear()

    def close(self):
        """Let go of the connections."""
        self._answers.close()
        self._requests.close()

    @property
    def batches(self):
        """How many batches are committed, of the enforcing query and of the audit."""
        return _latest(self._enforce / "commits"), _latest(self._audit / "commits")

    def near(self, step):
        """Whether the files are as they are at a step, which is quickly seen; answers and requests may tell another."""
        if isinstance(step, AuditStep):
            return self.audit_step() is step
        batch = _latest(self._enforce / "offsets")
        if batch is None or batch == _latest(self._enforce / "commits"):
            return step in {Step.BEFORE_OFFSETS, Step.IDLE}
        states = self._states(batch + 1)
        if states == 0:
            return step in {Step.OFFSETS, Step.SOME_DECIDED, Step.ALL_DECIDED}
        return step in ({Step.STATE_IN_PART} if states < self._partitions else {Step.STATE, Step.BEFORE_COMMIT})

    def at(self, step):
        """Whether a job that is frozen or dead stands at a step."""
        return step is (self.audit_step() if isinstance(step, AuditStep) else self.enforce_step())

    def enforce_step(self):
        """Where the enforcing query stands."""
        self._answered |= {source_of(each) for each in self._answers.read_on()}
        batch = _latest(self._enforce / "offsets")
        ended = _offsets(self._enforce, batch)
        began = _offsets(self._enforce, None if batch is None else batch - 1)
        ends = {str(partition): end for (_, partition), end in self._requests.ends().items()}
        asked = {(int(each), offset) for each in ended for offset in range(began.get(each, 0), ended[each])}
        written = Written(
            batch,
            committed=batch is not None and batch == _latest(self._enforce / "commits"),
            asked=frozenset(asked),
            answered=frozenset(self._answered),
            states=0 if batch is None else self._states(batch + 1),
            partitions=self._partitions,
            waiting=any(end > ended.get(each, 0) for each, end in ends.items()),
        )
        return enforce_step(written)

    def _states(self, version):
        folder = self._enforce / "state" / "0"
        return sum((folder / str(each) / f"{version}.changelog").exists() for each in range(self._partitions))

    def audit_step(self):
        """Where the audit stands."""
        batch = _latest(self._audit / "offsets")
        if batch is None or batch == _latest(self._audit / "commits"):
            return AuditStep.BETWEEN
        if _latest_transaction(self._table) == batch:
            return AuditStep.DELTA
        begun = (self._audit / "offsets" / str(batch)).stat().st_mtime
        files = any(each.stat().st_mtime > begun for each in self._table.glob("date=*/*.parquet"))
        return AuditStep.FILES if files else AuditStep.OFFSETS


def _latest(folder):
    """The latest batch of a log; None before the first."""
    return max((int(each.name) for each in folder.glob("[0-9]*")), default=None)


def _offsets(checkpoint, batch):
    """Up to where a batch reads each partition; nothing where there is no such batch."""
    file = checkpoint / "offsets" / str(batch)
    return next(iter(json.loads(file.read_text().splitlines()[-1]).values())) if file.exists() else {}


def _latest_transaction(table):
    """The batch that the latest commit of a table is of; None where it is of none."""
    log = max(table.glob("_delta_log/*.json"), default=None)
    actions = [json.loads(line) for line in log.read_text().splitlines()] if log else []
    return next((action["txn"]["version"] for action in actions if "txn" in action), None)
