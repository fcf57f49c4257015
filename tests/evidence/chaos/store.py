"""Kills of a job whose storage root is in S3."""

import itertools
import os
import random
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from unittest.mock import patch

from deltalake import DeltaTable

from jobs.query_names import ENFORCE
from jobs.sandbox.broker import embedded_broker, with_plaintext_cluster
from jobs.storage.stored_files import numbered, stored_files
from quota.settings import load_settings
from quota.settings.storage import checkpoint_folder
from schemas.buckets import STATE_VERSION
from tests.evidence.chaos.kills import JOB_OPTIONS, START_SECONDS
from tests.evidence.chaos.processes import Job
from tests.evidence.chaos.run import verdict_of
from tests.evidence.chaos.traffic import Traffic
from tests.evidence.chaos.writers import put_files
from tests.support.deployment import make_deployment, set_options
from tests.support.s3 import BUCKET, CREDENTIALS, s3_server
from tests.support.waiting import until

_STARTING_SHARE = 0.25
_STARTING_SECONDS = 20.0
_RUNNING_SECONDS = 8.0
_UPKEEP = ("--set", "audit.upkeep_seconds=2")
"""Lets kills hit the upkeep of the tables, too."""


@dataclass(slots=True)
class StoreTally:
    """The kills, and the times of the starts."""

    starting: int = 0
    """Kills before the job has committed a batch."""
    running: int = 0
    standing_by: int = 0
    """Kills of a job that had a standby, which was ready to take over."""
    starts: list = field(default_factory=list)
    """Times from a start to the first committed batch, seconds."""
    takeovers: list = field(default_factory=list)
    """Times from a kill to the first committed batch of the standby, seconds."""
    compactions: int = 0
    """Upkeeps that compacted the table of decisions."""


class StoreKiller:
    """Runs a job that enforces and audits, and kills it; in half of the kills after a batch a standby takes over."""

    def __init__(self, settings, options, log, notify):
        """Take a deployment in S3; no job is started yet."""
        self.tally = StoreTally()
        self._settings, self._options, self._log, self._notify = settings, options, log, notify
        self._files = stored_files(settings)
        self._commits = f"{checkpoint_folder(ENFORCE, STATE_VERSION)}/commits"
        self._random = random.Random(599)
        self._standby = None
        self._turns = itertools.cycle((True, False))
        self._numbers = itertools.count(1)

    def kill(self):
        """Kill driver and JVM of a job at a random moment: some while they start, or take over, most after a batch."""
        times = self.tally.takeovers if self._standby else self.tally.starts
        job, self._standby = self._standby or self._new_job(), None
        began, first = time.monotonic(), self._latest
        try:
            if self._random.random() < _STARTING_SHARE:
                moment = "while it starts"
                time.sleep(self._random.uniform(0, _STARTING_SECONDS))
                self.tally.starting += 1
            else:
                until(lambda: job.exit_code is not None or self._latest != first, START_SECONDS, 0.1)
                times.append(time.monotonic() - began)
                moment = "at random"
                if next(self._turns):
                    self._standby, moment = self._new_job(), "at random, with a standby"
                    self._standby.await_standing_by(START_SECONDS)
                    self.tally.standing_by += 1
                time.sleep(self._random.uniform(0, _RUNNING_SECONDS))
                self.tally.running += 1
            assert job.exit_code is None, f"ended by itself:\n{job.output[-3000:]}"
        finally:
            job.kill()
        self._notify(f"S3: {moment}; hit after batch {self._latest}")

    def stop(self):
        """Kill the standby of the last kill."""
        if self._standby:
            self._standby.kill()

    def _new_job(self):
        name = set_options(f"storage.options.fs.s3a.user.agent.prefix=job-{next(self._numbers)}")
        return Job(self._settings, self._log, *self._options, *name, with_audit=True)

    @property
    def _latest(self):
        """The latest batch that enforce has committed; -1 before the first."""
        return max(numbered(self._files, self._commits), default=-1)


@contextmanager
def deployment_in_s3(folder):
    """Run a broker and an S3 server inside the block; yields a deployment on both, and the options of its jobs."""
    folder.mkdir(parents=True, exist_ok=True)
    base = load_settings([f"storage.root={folder}"], environment={})
    with (
        patch.dict(os.environ, CREDENTIALS),
        s3_server(folder / "s3.log") as server,
        embedded_broker(base, port=0) as broker,
    ):
        settings = make_deployment(with_plaintext_cluster(base, broker.address), "store", f"s3a://{BUCKET}/store")
        options = {"fs.s3a.endpoint": server.endpoint}
        storage = settings.storage.model_validate({"root": settings.storage.root, "options": options})
        yield settings.model_copy(update={"storage": storage}), server.options()


def run_store(folder, kills, requests_per_second, notify):
    """Kill a job whose storage root is in S3 again and again, while requests flow."""
    log = folder / "jobs.log"
    with deployment_in_s3(folder) as (settings, options):
        killer = StoreKiller(settings, [*JOB_OPTIONS, *_UPKEEP, *options], log, notify)
        with Traffic.flowing(settings, requests_per_second) as traffic:
            try:
                for _ in range(kills):
                    killer.kill()
            finally:
                killer.stop()
        files = put_files(folder / "s3.log")
        verdict = verdict_of(settings, log, notify, traffic.acknowledged, options)
        killer.tally.compactions = _compactions(settings)
        return killer.tally, verdict, files


def _compactions(settings):
    table = DeltaTable(settings.storage.table("decisions"), storage_options=settings.storage.deltalake())
    return sum(commit["operation"] == "OPTIMIZE" for commit in table.history())
