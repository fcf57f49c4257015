"""Kills of a job, each followed by a restart."""

import random
import time
from collections import Counter
from dataclasses import dataclass, field
from enum import Enum

from tests.evidence.chaos.processes import Job
from tests.evidence.chaos.steps import Watch
from tests.support.waiting import until

START_SECONDS = 600.0
_HUNT_SECONDS = 120.0
_POLL_SECONDS = 0.001
_STARTING_SHARE = 0.2
_STARTING_SECONDS = 10.0
_RUNNING_SECONDS = 5.0
_RECORDS = "spark.conf.spark.sql.execution.arrow.maxRecordsPerBatch=50"
JOB_OPTIONS = ("--set", "audit.trigger_seconds=1", "--set", _RECORDS)
"""Keeps the audit's batches short, and lets kills hit workers that have a part of one."""


class Part(Enum):
    """A part of a job that can be killed alone."""

    JVM = "the JVM alone"
    DRIVER = "the driver alone, with an immediate restart of the job"
    WORKERS = "the Python workers alone"
    DAEMON = "the process that forks the workers alone"


@dataclass(slots=True)
class Tally:
    """Kills by step and by part, and the outcomes for parts."""

    random: int = 0
    at_steps: int = 0
    missed: Counter = field(default_factory=Counter)
    """Steps that did not occur within the time."""
    steps: Counter = field(default_factory=Counter)
    audit_steps: Counter = field(default_factory=Counter)
    parts: dict = field(default_factory=dict)
    starts: list = field(default_factory=list)
    """Times from a start to the first committed batch, seconds."""

    @property
    def never(self):
        """Steps that no kill has hit although the test waited for them; they are untested."""
        return [step for step in self.missed if not (self.steps[step] or self.audit_steps[step])]

    @property
    def kills(self):
        """Number of kills."""
        return self.random + self.at_steps + len(self.parts)


class Killer:
    """Runs a job on a deployment and kills it."""

    def __init__(self, settings, log, notify):
        """Start the job."""
        self.tally = Tally()
        self._settings = settings
        self._log = log
        self._notify = notify
        self._random = random.Random(599)
        self._watch = Watch(settings)
        self._start(with_audit=False)

    def with_audit(self):
        """Replace the job by one that does the audit as well."""
        if not self._job.with_audit:
            self.tally.random += 1
            self._kill("before the audit joins")
            self._start(with_audit=True)

    def kill_at(self, step):
        """Kill the job at a step, or at any step if that one does not occur within some time."""
        self._await_running()
        deadline = time.monotonic() + _HUNT_SECONDS
        while not self._frozen_at(step) and time.monotonic() < deadline:
            self._job.thaw()
            time.sleep(_POLL_SECONDS)
        self.tally.at_steps += 1
        if step not in self._kill(f"wanted: {step.value}"):
            self.tally.missed[step] += 1
        self._start(self._job.with_audit)

    def _frozen_at(self, step):
        """Freeze the job if it seems to be at a step, and check closely."""
        if not self._watch.near(step):
            return False
        time.sleep(self._random.choice((0, 0, self._random.random() * 0.1)))  # at a random point of the step
        self._job.freeze()
        return self._watch.at(step)

    def kill_at_random(self):
        """Kill the job at a random moment, sometimes while it starts."""
        if self._random.random() < _STARTING_SHARE:
            time.sleep(self._random.uniform(0, _STARTING_SECONDS))
        else:
            self._await_running()
            time.sleep(self._random.uniform(0, _RUNNING_SECONDS))
        self.tally.random += 1
        self._kill("at random")
        self._start(self._job.with_audit)

    def kill_part(self, part):
        """Kill a part of the job, which must continue, or exit and continue after a restart."""
        self._await_running()
        match part:
            case Part.JVM:
                self._job.kill_jvm()
            case Part.DRIVER:
                self._job.kill_driver()
            case Part.WORKERS:
                self._until(self._running.kill_workers, "no Python worker")
            case Part.DAEMON:
                self._until(self._running.kill_daemon, "no process that forks Python workers")
        before, _ = self._watch.batches
        self._until(lambda: self._job.exit_code is not None or self._watch.batches[0] > before + 2, "no further batch")
        code = self._job.exit_code
        self.tally.parts[part] = "it continued" if code is None else f"it exited ({code}) and continued after a restart"
        self._notify(f"{part.value}: {self.tally.parts[part]}")
        if code is not None:
            self._start(self._job.with_audit)

    @property
    def _running(self):
        """The job, which has not ended by itself."""
        assert self._job.exit_code is None, f"ended by itself:\n{self._job.output[-3000:]}"
        return self._job

    def stop(self):
        """Kill the job for the last time."""
        self._job.kill()
        self._watch.close()

    def _kill(self, why):
        """Kill the whole job, and return the steps that it was at."""
        self._running.kill()
        hit = [self._watch.enforce_step()]
        self.tally.steps[hit[0]] += 1
        if self._job.with_audit:
            hit.append(self._watch.audit_step())
            self.tally.audit_steps[hit[1]] += 1
        self._notify(f"{why}; hit: {'; audit: '.join(step.value for step in hit)}")
        return hit

    def _start(self, with_audit):
        """Start the job; later writes are this process's."""
        self._watch.begin()
        self._job = Job(self._settings, self._log, *JOB_OPTIONS, with_audit=with_audit)
        self._started, self._first = time.monotonic(), self._watch.batches[0]

    def _await_running(self):
        """Wait until this process has committed a batch."""

        def running():
            return self._running and self._watch.batches[0] != self._first

        if not running():
            self._until(running, "no batch")
            self.tally.starts.append(time.monotonic() - self._started)

    def _until(self, condition, missing):
        """Wait for a condition; show the job's output if it does not come."""
        try:
            until(condition, START_SECONDS, 0.05)
        except AssertionError as error:
            if self._job.exit_code is not None:
                raise
            raise AssertionError(f"{missing} in {START_SECONDS:.0f} s:\n{self._job.output[-3000:]}") from error
