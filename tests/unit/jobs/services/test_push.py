"""A service that follows the quota log and a cluster: its pushes, its reports of drift, and its repairs."""

import logging
import threading
from itertools import pairwise

import pytest

from jobs.services import push
from jobs.services.push import PushStats, QuotaPusher, Repair
from quota.errors import ClusterError
from quota.kafka.brokers.cluster_quotas import UnsetQuotas
from quota.records.entity import QuotaEntity
from quota.settings import load_settings
from tests.support.factories import timeline

ALICE, BOB, CAROL = QuotaEntity("alice"), QuotaEntity("bob"), QuotaEntity("carol")


class Log:
    """A quota log with given contents; reading it may fail."""

    def __init__(self):
        self.position = 0
        self.now = 0
        self.timeline = timeline()
        self.failure = None

    def set(self, *changes):
        self.timeline = timeline(*changes)
        self.position += 1

    def read_to_end(self):
        if self.failure:
            raise ClusterError(self.failure)


class Cluster:
    """A cluster that has the pushed quotas, or given ones."""

    connection = "127.0.0.1:9092"

    def __init__(self, rates):
        self.rates = dict(rates)
        self.pushed = []
        self.reads = 0
        self.failure = self.rejection = None
        self.rejects, self.contested = set(), {}

    def read(self):
        self.reads += 1
        if self.failure:
            raise ClusterError(self.failure)
        return dict(self.rates)

    def push(self, rates):
        if self.rejection:
            raise ClusterError(self.rejection)
        self.pushed.append(dict(rates))
        wanted = self.rates | {entity: rate for entity, rate in rates.items() if entity not in self.rejects}
        self.rates = {entity: rate for entity, rate in wanted.items() if rate is not None} | self.contested
        if unset := rates.keys() & (self.rejects | {*self.contested}):
            raise UnsetQuotas("some", dict.fromkeys(unset & self.rejects, "refused"))


@pytest.fixture
def log(monkeypatch):
    quota_log = Log()

    monkeypatch.setattr(push, "QuotaLog", lambda _: quota_log)
    monkeypatch.setattr(push, "now_ms", lambda: quota_log.now)
    monkeypatch.setattr(push, "_TICK_SECONDS", 0)
    return quota_log


@pytest.fixture
def follow(log, monkeypatch):
    """Return a function that creates a follower which has pushed these rates, and one that runs it."""

    def _follow(cluster, pushed, repair=Repair.NONE, compare_seconds=1e-9):
        monkeypatch.setattr(push, "_COMPARE_SECONDS", compare_seconds)
        stats = PushStats()
        follower = QuotaPusher(load_settings(environment={}), cluster, pushed, stats, repair)

        def once():
            stop = threading.Event()
            read_to_end, log.read_to_end = log.read_to_end, lambda: (stop.set(), read_to_end())
            follower.run(stop)
            log.read_to_end = read_to_end

        return once, stats

    return _follow


def test_a_change_of_the_log_is_pushed_and_nothing_else(log, follow):
    cluster = Cluster({ALICE: 5.0, CAROL: 1.0})
    log.set((ALICE, 5.0, 0))
    once, stats = follow(cluster, {ALICE: 5.0})
    once()
    assert cluster.pushed == []
    log.set((ALICE, 9.0, 0), (BOB, 7.0, 0))
    once()
    assert cluster.pushed == [{ALICE: 9.0, BOB: 7.0}]
    log.set((ALICE, None, 0), (BOB, 7.0, 0))
    once()
    assert cluster.pushed[1:] == [{ALICE: None}]
    assert (stats.pushed, stats.repaired, dict(stats.differing)) == (3, 0, {"only_there": 1})
    assert cluster.rates == {BOB: 7.0, CAROL: 1.0}


def test_a_scheduled_change_is_pushed_when_it_is_due(log, follow):
    """It does not read the cluster before, if nothing is due and it is not time to compare."""
    cluster = Cluster({ALICE: 5.0})
    log.set((ALICE, 5.0, 0), (ALICE, 9.0, 100), (BOB, 7.0, 200))
    once, _ = follow(cluster, {ALICE: 5.0}, compare_seconds=1000)
    for now, pushed, reads in ((0, [], 1), (99, [], 1), (100, [{ALICE: 9.0}], 2), (150, [{ALICE: 9.0}], 2)):
        log.now = now
        once()
        assert (cluster.pushed, cluster.reads) == (pushed, reads), now
    log.now = 200
    once()
    assert cluster.rates == {ALICE: 9.0, BOB: 7.0}


def test_drift_is_reported_once_and_left_and_again_if_it_recurs(log, follow, caplog):
    cluster = Cluster({ALICE: 9.0, CAROL: 1.0})
    log.set((ALICE, 5.0, 0), (BOB, 7.0, 0))
    once, stats = follow(cluster, {ALICE: 5.0, BOB: 7.0})
    with caplog.at_level(logging.INFO):
        once()
        once()
    rate, prefix = "controller_mutation_rate", "changed on the cluster, and not in the log:"
    assert caplog.messages == [
        f"{prefix} ~ user-principal 'alice': {rate}=5.0 -> {rate}=9.0",
        f"{prefix} - user-principal 'bob': {rate}=7.0",
        f"{prefix} + user-principal 'carol': {rate}=1.0",
    ]
    assert cluster.pushed == []
    assert dict(stats.differing) == {"changed": 1, "missing": 1, "only_there": 1}
    with caplog.at_level(logging.INFO):
        cluster.rates = {ALICE: 5.0, BOB: 7.0}
        once()
        assert (caplog.messages[-1], dict(stats.differing)) == ("the cluster matches the log again", {})
        cluster.rates[ALICE] = 9.0
        once()
    assert len(caplog.messages) == 5


@pytest.mark.parametrize(
    ("repair", "expected", "left"),
    [
        (Repair.NONE, [], {"changed": 1, "missing": 1, "not_removed": 1, "only_there": 1}),
        (Repair.KNOWN, [{ALICE: 5.0, BOB: 7.0, QuotaEntity("dora"): None}], {"only_there": 1}),
        (Repair.ALL, [{ALICE: 5.0, BOB: 7.0, QuotaEntity("dora"): None, CAROL: None}], {}),
    ],
)
def test_drift_is_repaired_as_configured(log, follow, repair, expected, left):
    dora = QuotaEntity("dora")
    cluster = Cluster({ALICE: 9.0, CAROL: 1.0, dora: 2.0})
    log.set((ALICE, 5.0, 0), (BOB, 7.0, 0), (dora, 2.0, 0), (dora, None, 0))
    once, stats = follow(cluster, {ALICE: 5.0, BOB: 7.0, dora: None}, repair)
    once()
    assert cluster.pushed == expected
    assert dict(stats.differing) == left
    assert stats.repaired == sum(len(rates) for rates in expected)
    assert stats.pushed == 0


def test_a_repair_that_is_undone_again_is_warned_of(log, follow, caplog):
    """Alice's quota is removed by another program each time, Bob's once: a repair, and from the second on a warning."""
    caplog.set_level(logging.INFO)
    cluster = Cluster({})
    log.set((ALICE, 5.0, 0), (BOB, 7.0, 0))
    once, stats = follow(cluster, {ALICE: 5.0, BOB: 7.0}, Repair.KNOWN)
    for _ in range(3):
        once()
        del cluster.rates[ALICE]
    repair = "+ user-principal 'alice': controller_mutation_rate=5.0"
    again = f"repaired again, since another program changes it, too: {repair}"
    logged = [(record.levelname, record.getMessage()) for record in caplog.records if "repaired" in record.getMessage()]
    assert logged == [
        ("INFO", f"repaired: {repair}"),
        ("INFO", "repaired: + user-principal 'bob': controller_mutation_rate=7.0"),
        ("WARNING", again),
        ("WARNING", again),
    ]
    assert stats.repaired == 4


def test_a_rejected_quota_is_pushed_again_alone_and_each_time_later(log, follow):
    """Meanwhile another program changes what was pushed with it, which is reported and left."""
    cluster = Cluster({ALICE: 1.0, BOB: 1.0})
    cluster.rejects = {BOB}
    log.set((ALICE, 5.0, 0), (BOB, 5.0, 0))
    once, stats = follow(cluster, {ALICE: 1.0, BOB: 1.0}, compare_seconds=30)
    once()
    cluster.rates[ALICE] = 9.0
    tried = []
    for log.now in range(0, 60_000, 100):
        before = len(cluster.pushed)
        once()
        tried += [log.now] * (len(cluster.pushed) - before)
    assert cluster.pushed == [{ALICE: 5.0, BOB: 5.0}, *[{BOB: 5.0}] * len(tried)]
    waits = [later - earlier for earlier, later in pairwise([0, *tried])]
    assert 3 <= len(waits) <= 6
    assert all(0.5 * 2000 * 2**place <= wait <= 2000 * 2**place + 100 for place, wait in enumerate(waits))
    assert (stats.pushed, dict(stats.differing), cluster.rates[ALICE]) == (1, {"changed": 2}, 9.0)
    assert cluster.reads < 15

    cluster.rejects = set()
    log.set((ALICE, 5.0, 0), (BOB, 6.0, 0))  # another value is tried at once
    once()
    assert (cluster.rates, stats.pushed) == ({ALICE: 9.0, BOB: 6.0}, 2)
    reads = cluster.reads
    for log.now in range(60_000, 65_000, 100):
        once()
    assert cluster.reads == reads


def test_a_quota_that_another_program_changes_at_once_is_pushed_once_and_left(log, follow):
    """What was pushed in the same round is not pushed again either."""
    cluster = Cluster({ALICE: 1.0, BOB: 1.0})
    cluster.contested = {ALICE: 9.0}
    log.set((ALICE, 5.0, 0), (BOB, 5.0, 0))
    once, stats = follow(cluster, {ALICE: 1.0, BOB: 1.0})
    once()
    cluster.rates[BOB] = 7.0
    for _ in range(3):
        once()
    assert cluster.pushed == [{ALICE: 5.0, BOB: 5.0}]
    assert dict(stats.differing) == {"changed": 2}


def test_a_recreated_log_removes_nothing(log, follow):
    """The deletion of the topic is not meant to remove all quotas."""
    cluster = Cluster({ALICE: 5.0})
    log.set((ALICE, 5.0, 0))
    once, stats = follow(cluster, {ALICE: 5.0}, Repair.KNOWN)
    once()
    log.set()
    once()
    assert cluster.rates == {ALICE: 5.0}
    assert dict(stats.differing) == {"only_there": 1}


@pytest.mark.parametrize("fails", ["log", "cluster", "push"])
def test_a_cluster_that_does_not_respond_or_rejects_a_quota_ends_it_with_the_reason(log, follow, fails):
    """Whoever starts it again pushes the log as it is then."""
    cluster = Cluster({ALICE: 5.0})
    log.set((ALICE, 5.0, 0))
    once, stats = follow(cluster, {ALICE: 5.0})
    once()
    log.set((ALICE, 9.0, 0))
    if fails == "push":
        cluster.rejection = "refused"
    else:
        (log if fails == "log" else cluster).failure = "refused"
    with pytest.raises(ClusterError, match="refused"):
        once()
    assert stats.pushed == 0
