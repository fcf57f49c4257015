"""The probe of a controller's capacity, on a cluster in memory whose clock the test moves."""

import threading

import pytest

from quota.errors import ClusterError, Interrupted
from quota.kafka.topics import capacity
from quota.kafka.topics.capacity import Capacity, measure_capacity
from quota.kafka.topics.specs import TopicSpec

SPECS = [TopicSpec(f"probe-{number}", 10, {}) for number in range(25)]


class Cluster:
    """Takes 2 s to create the topics of a call, whose leaders respond at the third question, and 1 s to delete them."""

    def __init__(self):
        self.now, self.topics, self.questions = 0.0, set(), 0

    def monotonic(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds

    def create(self, specs):
        self.now += 2.0
        self.topics |= {spec.name for spec in specs}

    def offsets(self, partitions):
        assert {name for name, _ in partitions} <= self.topics
        self.questions += 1
        if self.questions % 3:
            raise ClusterError("not the leader")

    def delete(self, names):
        known = self.topics & {*names}
        self.topics -= known
        self.now += 1.0 if known else 0.0
        return bool(known)


def raising(error):
    """Return a function that raises an error."""

    def fail(*_):
        raise error

    return fail


@pytest.fixture
def cluster(monkeypatch):
    made = Cluster()
    monkeypatch.setattr(capacity, "time", made)
    return made


def test_each_rate_counts_until_the_cluster_has_done_what_it_answered(cluster):
    """250 partitions in two calls: 2 * (2 + 2 * 0.05) s, and 2 * (1 + 0.05) s."""
    told = []
    measured = measure_capacity(cluster, SPECS, threading.Event(), told.append)
    assert measured == Capacity(250, 59.5, 119.0, 59.5)
    assert told == [f"{done} {share}% of 250 partitions" for done in ("created", "deleted") for share in (0, 50)]
    assert cluster.topics == set()


def test_an_interrupt_deletes_what_was_created(cluster):
    stop = threading.Event()
    told = []

    def tell(text):
        told.append((text, len(cluster.topics)))
        if text.startswith("created 50%"):
            stop.set()

    with pytest.raises(Interrupted, match="the topics of the probe were deleted"):
        measure_capacity(cluster, SPECS, stop, tell)
    assert told[-1] == ("deleting the topics of the probe", 25)
    assert cluster.topics == set()


@pytest.mark.parametrize(
    ("error", "reason"), [(ClusterError("no access"), "no access"), (KeyboardInterrupt(), "inter")]
)
def test_topics_that_cannot_be_deleted_are_named(cluster, error, reason):
    cluster.delete = raising(error)
    with pytest.raises(ClusterError, match=rf"{reason}.*; delete the topics probe-\* yourself"):
        measure_capacity(cluster, SPECS, threading.Event(), lambda _: None)


def test_a_leader_that_never_responds_is_an_error_after_two_minutes(cluster, monkeypatch):
    monkeypatch.setattr("quota.kafka.timing.time", cluster)
    monkeypatch.setattr(Cluster, "offsets", raising(ClusterError("not the leader")))
    with pytest.raises(ClusterError, match="not the leader"):
        measure_capacity(cluster, SPECS, threading.Event(), lambda _: None)
    assert 120 < cluster.now < 125
    assert cluster.topics == set()
