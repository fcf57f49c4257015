"""Failures of brokers of a cluster, one after the other, and cut-off leaders, while a job runs."""

import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

from jobs.query_names import ENFORCE
from jobs.sandbox.broker import with_plaintext_cluster
from quota.kafka.topics.topic_admin import TopicAdmin
from quota.settings import load_settings
from quota.settings.connection import Connection
from quota.settings.storage import checkpoint_folder
from schemas.buckets import STATE_VERSION
from tests.evidence.chaos.kills import JOB_OPTIONS, START_SECONDS
from tests.evidence.chaos.processes import Job
from tests.evidence.chaos.run import verdict_of
from tests.evidence.chaos.steps import latest_batch
from tests.evidence.chaos.traffic import Traffic
from tests.support.cluster import Cluster
from tests.support.deployment import make_deployment
from tests.support.programs import paused
from tests.support.waiting import until

_ELECTION_SECONDS = 60.0
_POLL_SECONDS = 0.2
_BATCHES = 2
"""Batches that the job has to commit after each failure."""


class Failure(Enum):
    """The failures of a broker."""

    KILLED = "killed, and restarted after its partitions have other leaders"
    WITH_JOB = "killed together with the job, and both restarted"
    CUT_OFF = "cut off while it was a leader, and back after its partitions had other leaders"


@dataclass(slots=True)
class BrokerTally:
    """The failures, and their effects on the job."""

    failures: Counter = field(default_factory=Counter)
    ended: list = field(default_factory=list)
    """Last lines of jobs that exited by themselves; each was restarted."""
    elections: list = field(default_factory=list)
    """Times from a failure to other leaders, seconds."""


def topics_of(servers):
    """Return the topics of a cluster, according to the server that responds first."""
    return TopicAdmin(Connection(servers), 10).layout().topics


def leader_of(cluster, topic):
    """Return the leader of a topic's first partition."""
    return cluster.nodes[topics_of(cluster.address)[topic].partitions[0].leader - 1]


class BrokerKiller:
    """Makes brokers of a cluster fail while a job runs on it."""

    def __init__(self, cluster, settings, log, notify, traffic):
        """Start the job, which enforces and audits."""
        self.tally = BrokerTally()
        self._traffic = traffic
        self.cluster = cluster
        self.settings = settings
        self._log = log
        self._notify = notify
        self._commits = Path(settings.storage.url, checkpoint_folder(ENFORCE, STATE_VERSION)) / "commits"
        self._start()

    def kill(self, node):
        """Kill a node; restart it when its partitions have other leaders."""
        self._notify(f"{node.address}: {Failure.KILLED.value}")
        node.kill()
        self._await_election(node)
        self.await_batches()
        node.start()
        self._recover(Failure.KILLED)

    def kill_with_job(self, node):
        """Kill a node and the job at the same time; restart the job immediately, and the node when the job runs."""
        self._notify(f"{node.address}: {Failure.WITH_JOB.value}")
        node.kill()
        self._job.kill()
        self._start()
        self._await_election(node)
        self.await_batches()
        node.start()
        self._recover(Failure.WITH_JOB)

    def cut_off(self, topic):
        """Pause the leader of a topic until the topic has another one; clients do not notice."""
        node = leader_of(self.cluster, topic)
        self._notify(f"{node.address}, leader of {topic}: {Failure.CUT_OFF.value}")
        with ExitStack() as steady:
            steady.enter_context(self._traffic.steady_quotas())
            with paused(node.pid):
                self._await_election(node)
                steady.close()  # the resumed node still considers itself the leader: quotas change again by then
        self._recover(Failure.CUT_OFF)

    def stop(self):
        """Kill the job."""
        self._job.kill()

    def _recover(self, failure):
        """Wait for replicas in sync, and for batches of the job."""
        self.cluster.wait_until_in_sync()
        self.await_batches()
        self.tally.failures[failure] += 1

    def _await_election(self, node):
        """Wait until each other node knows that the failed node leads none of its partitions.

        From then on the failed node is in no set of in-sync replicas, and delays no record.
        """
        began = time.monotonic()
        others = [other.address for other in self.cluster.nodes if other is not node]
        until(lambda: not any(self._leads_any(node, address) for address in others), _ELECTION_SECONDS, _POLL_SECONDS)
        self.tally.elections.append(time.monotonic() - began)

    def _leads_any(self, node, server):
        """Return whether a node leads a partition, or one has no leader, according to another node."""
        leaders = {partition.leader for topic in topics_of(server).values() for partition in topic.partitions}
        return None in leaders or self.cluster.nodes.index(node) + 1 in leaders

    def await_batches(self):
        """Wait until the job has committed batches; restart it if it exits by itself, as a supervisor would."""
        first = self._latest

        def done():
            if self._job.exit_code is not None:
                lines = self._job.output.strip().splitlines() or [""]
                self.tally.ended.append(lines[-1])
                self._notify(f"the job ended ({self._job.exit_code}): {lines[-1]}")
                self._start()
            return self._latest >= first + _BATCHES

        until(done, START_SECONDS, _POLL_SECONDS)

    @property
    def _latest(self):
        """The latest batch that enforce has committed; -1 before the first."""
        batch = latest_batch(self._commits)
        return -1 if batch is None else batch

    def _start(self):
        self._job = Job(self.settings, self._log, *JOB_OPTIONS, with_audit=True)


def run_brokers(folder, rounds, requests_per_second, notify):
    """Make each broker of a cluster fail, and cut off each leader of a topic that the job reads or writes."""
    base = load_settings([f"storage.root={folder}"], environment={})
    log = folder / "jobs.log"
    with Cluster(folder / "nodes", base.broker.jars) as cluster:
        settings = make_deployment(with_plaintext_cluster(base, cluster.address), "brokers", folder / "job")
        with Traffic.flowing(settings, requests_per_second) as traffic:
            killer = BrokerKiller(cluster, settings, log, notify, traffic)
            try:
                killer.await_batches()
                _fail(killer, rounds)
            finally:
                killer.stop()
        return killer.tally, verdict_of(settings, log, notify, traffic.acknowledged)


def _fail(killer, rounds):
    cluster, topics = killer.cluster, killer.settings.topics
    if not rounds:
        killer.kill(leader_of(cluster, topics.decisions))
        killer.cut_off(topics.quotas)
    for _ in range(rounds):
        for node in cluster.nodes:
            killer.kill(node)
        killer.kill_with_job(leader_of(cluster, topics.requests))
        for topic in (topics.requests, topics.quotas, topics.decisions):
            killer.cut_off(topic)
