"""Kills of a job, each followed by a restart, or by a standby that takes over."""

import itertools
import random
import time
from collections import Counter
from contextlib import nullcontext
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
    standing_by: int = 0
    """Kills of a job that had a standby."""
    missed: Counter = field(default_factory=Counter)
    """Steps that did not occur within the time."""
    steps: Counter = field(default_factory=Counter)
    audit_steps: Counter = field(default_factory=Counter)
    parts: dict = field(default_factory=dict)
    starts: list = field(default_factory=list)
    """Times from a start to the first committed batch, seconds."""
    takeovers: list = field(default_factory=list)
    """Times from a kill to the first committed batch of a standby that was ready, seconds."""

    @property
    def never(self):
        """Steps that no kill has hit although the test waited for them; they are untested."""
        return [step for step in self.missed if not (self.steps[step] or self.audit_steps[step])]

    @property
    def kills(self):
        """Number of kills."""
        return self.random + self.at_steps + len(self.parts)


class Killer:
    """Runs a job on a deployment and kills it; in every second kill a standby takes over."""

    def __init__(self, settings, log, notify, files):
        """Start the job."""
        self.tally = Tally()
        self._settings = settings
        self._log = log
        self._notify = notify
        self._files = files
        self._standby = None
        self._turns = itertools.cycle((True, False))
        self._random = random.Random(599)
        self._watch = Watch(settings)
        self._start(with_audit=False)

    def with_audit(self):
        """Replace the job by one that does the audit as well."""
        if not self._job.with_audit:
            self.tally.random += 1
            self._kill("before the audit joins", with_audit=True)

    def kill_at(self, step):
        """Kill the job at a step, or at any step if that one does not occur within some time."""
        self._await_running()
        if next(self._turns):
            self._stand_by()
        deadline = time.monotonic() + _HUNT_SECONDS
        while not self._frozen_at(step) and time.monotonic() < deadline:
            self._job.thaw()
            time.sleep(_POLL_SECONDS)
        self.tally.at_steps += 1
        if step not in self._kill(f"wanted: {step.value}"):
            self.tally.missed[step] += 1

    def _frozen_at(self, step):
        """Freeze the job if it seems to be at a step, and check closely."""
        if not self._watch.near(step):
            return False
        time.sleep(self._random.choice((0, 0, self._random.random() * 0.1)))  # at a random point of the step
        self._job.freeze()
        return self._watch.at(step)

    def kill_at_random(self):
        """Kill the job at a random moment, sometimes while it or its standby starts."""
        starting, has_standby = self._random.random() < _STARTING_SHARE, next(self._turns)
        if has_standby or not starting:
            self._await_running()
        if has_standby:
            self._stand_by(ready=not starting)
        time.sleep(self._random.uniform(0, _STARTING_SECONDS if starting else _RUNNING_SECONDS))
        self.tally.random += 1
        self._kill("at random")

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
        for job in (self._standby, self._job):  # the standby first: it would take over
            if job:
                job.kill()
        self._watch.close()

    def _kill(self, why, *, with_audit=False):
        """Kill the whole job, and return the steps that it was at; it is started again unless a standby takes over."""
        # What the standby writes must not count as the killed job's.
        with self._standby.paused_driver() if self._standby else nullcontext():
            self._running.kill()
            hit = [self._watch.enforce_step()]
            self.tally.steps[hit[0]] += 1
            if self._job.with_audit:
                hit.append(self._watch.audit_step())
                self.tally.audit_steps[hit[1]] += 1
            how = ", with a standby" if self._standby else ""
            self._notify(f"{why}{how}; hit: {'; audit: '.join(step.value for step in hit)}")
            self._start(with_audit or self._job.with_audit)
        return hit

    def _start(self, with_audit):
        """Start the job, unless a standby takes over; later writes are this process's."""
        self._watch.begin()
        self._files.look()
        if self._standby:
            self._job, self._standby = self._standby, None
        else:
            self._job, self._times = self._new_job(with_audit), self.tally.starts
        self._started, self._first = time.monotonic(), self._watch.batches[0]

    def _stand_by(self, *, ready=True):
        """Start a standby, and wait until it is ready to take over, unless it is to take over while it starts."""
        self._standby = self._new_job(self._job.with_audit)
        self._times = self.tally.takeovers if ready else []
        self.tally.standing_by += 1
        if ready:
            self._standby.await_standing_by(START_SECONDS)

    def _new_job(self, with_audit):
        group = next(self._files.groups)
        return Job(self._settings, self._log, *JOB_OPTIONS, with_audit=with_audit, group=group)

    def _await_running(self):
        """Wait until this process has committed a batch."""

        def running():
            return self._running and self._watch.batches[0] != self._first

        if not running():
            self._until(running, "no batch")
            self._times.append(time.monotonic() - self._started)

    def _until(self, condition, missing):
        """Wait for a condition; show the job's output if it does not come."""
        try:
            until(condition, START_SECONDS, 0.05)
        except AssertionError as error:
            if self._job.exit_code is not None:
                raise
            raise AssertionError(f"{missing} in {START_SECONDS:.0f} s:\n{self._job.output[-3000:]}") from error
