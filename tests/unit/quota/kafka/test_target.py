"""What a target knows of topics: a broker's report, corrected by what was carried out in the last seconds."""

from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaError

from quota.kafka import target as module
from quota.kafka.target import Target
from quota.kafka.tasks import Task
from quota.kafka.topics.topic_admin import Topic
from quota.records.request import Operation, TopicMutation

CREATE, DELETE = Operation.CREATE_TOPICS, Operation.DELETE_TOPICS
CREATED, DELETED = [(CREATE, "a", 3, 100_000)], [(DELETE, "a", 3, 100_000)]


class FakeCluster:
    """A cluster that carries out everything, and reports numbers of partitions of its own."""

    def __init__(self, reported):
        self._reported = reported

    def describe(self, names, _seconds):
        counts = {name: count for name, count in self._reported.items() if name in names}
        return {name: Topic(name, ((1,),) * count, f"id-of-{name}") for name, count in counts.items()}, {}

    def change(self, tasks, _seconds):
        return {task.name: None for task in tasks}


@pytest.fixture
def clock(monkeypatch):
    """The time, which a test sets [ms]."""
    clock = SimpleNamespace(ms=100_000)
    monkeypatch.setattr(module, "now_monotonic_ms", lambda: clock.ms)
    return clock


def changed_at(clock, reported, changes):
    """Return a target on which changes were carried out: (operation, name, partitions, time)."""
    target = Target({})
    cluster = FakeCluster(reported)
    target._describe, target._change = cluster.describe, cluster.change  # noqa: SLF001
    for operation, name, partitions, clock.ms in changes:
        target.carry_out([Task(operation, TopicMutation(name, partitions), validate_only=False)], 1.0)
    return target


@pytest.mark.parametrize(
    ("changes", "reported", "now", "corrected"),
    [
        pytest.param([], {"a": 1, "c": 2}, 100_000, {"a": 1}, id="unchanged, as the broker reports them"),
        pytest.param([(CREATE, "c", 3, 100_000)], {"a": 1, "c": 2}, 100_000, {"a": 1}, id="not requested"),
        pytest.param(CREATED, {}, 101_000, {"a": 3}, id="created, and the broker does not know it yet"),
        pytest.param(DELETED, {"a": 3, "b": 2}, 101_000, {"b": 2}, id="deleted, and the broker still lists it"),
        pytest.param(CREATED, {"a": 8}, 101_000, {"a": 8}, id="grown again by another client"),
        pytest.param(CREATED, {"a": 1}, 105_000, {"a": 3}, id="five seconds ago"),
        pytest.param(CREATED, {"a": 1}, 105_001, {"a": 1}, id="longer ago, the broker is trusted"),
        pytest.param(DELETED, {"a": 1}, 105_001, {"a": 1}, id="deleted longer ago"),
        pytest.param([*CREATED, (DELETE, "a", 3, 101_000)], {"a": 3}, 102_000, {}, id="created, then deleted"),
        pytest.param([*DELETED, (CREATE, "a", 5, 101_000)], {}, 102_000, {"a": 5}, id="deleted, then created"),
    ],
)
def test_a_brokers_report_is_corrected_by_the_changes_of_the_last_five_seconds(
    clock, changes, reported, now, corrected
):
    """A lookup, of the topics a and b, does not change what is remembered."""
    target = changed_at(clock, reported, changes)
    clock.ms = now
    assert [target.partitions(["a", "b", "a"], 1.0) for _ in range(2)] == [(corrected, {})] * 2


@pytest.mark.parametrize(("changes", "known"), [([], True), (CREATED, False), (DELETED, False)])
def test_the_id_of_a_topic_that_was_changed_just_now_is_not_known(clock, changes, known):
    target = changed_at(clock, {"a": 3}, changes)
    assert target.topic_ids(["a"], 1.0) == ({"a": "id-of-a"} if known else {})
    clock.ms += 5001
    assert target.topic_ids(["a"], 1.0) == {"a": "id-of-a"}


def test_a_topic_that_cannot_be_described_fails_alone(clock):
    """The others of its call are carried out."""
    target = changed_at(clock, {}, [])
    denied = KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)
    target._describe = lambda names, _: ({}, {name: denied for name in names if name == "secret"})  # noqa: SLF001
    results = target.carry_out([Task(DELETE, TopicMutation(name, 3)) for name in ("a", "secret", "b")], 1.0)
    assert [(result.name, result.error_code) for result in results] == [("a", 0), ("secret", 29), ("b", 0)]
