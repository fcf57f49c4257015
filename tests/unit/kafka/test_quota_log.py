"""A quota change that can be read only after requests that it should have applied to."""

import json

import pytest
from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME

from quota.kafka import quota_log
from quota.kafka.quota_log import KafkaQuotas
from quota.records.callback import Callbacks
from quota.settings.connection import Connection


class Change:
    """A record of the quota topic."""

    def __init__(self, offset, at):
        self._offset, self._at = offset, at

    def error(self):
        return None

    def topic(self):
        return "quotas"

    def partition(self):
        return 0

    def offset(self):
        return self._offset

    def timestamp(self):
        return TIMESTAMP_LOG_APPEND_TIME, self._at

    def key(self):
        return b'{"user":"ann"}'

    def value(self):
        return json.dumps({"entity": {"user": "ann"}, "controller_mutation_rate": 1.0}).encode()


class Topic:
    """The quota topic and its consumer at once."""

    def __init__(self):
        self.changes, self._next = [], 0

    def get_watermark_offsets(self, *_, **__):
        return 0, len(self.changes)

    def assign(self, partitions):
        self._next = partitions[0].offset

    def unassign(self):
        pass

    def poll(self, _):
        self._next += 1
        return self.changes[self._next - 1]


@pytest.fixture
def topic(monkeypatch):
    made = Topic()
    monkeypatch.setattr(quota_log, "Consumer", lambda _: made)
    monkeypatch.setattr(quota_log, "topic_partitions", lambda *_: [0])
    return made


@pytest.mark.parametrize(("stamped", "is_late"), [(999, True), (1000, True), (1001, False)])
def test_a_change_that_the_replicas_had_late_is_warned_of(topic, caplog, stamped, is_late):
    """A change in the millisecond of a request applies to it."""
    quotas = KafkaQuotas(Connection(f"late-{stamped}:9092"), "quotas", 5.0, Callbacks())
    topic.changes.append(Change(0, 500))
    quotas.read_until(1000)
    assert caplog.text == ""
    topic.changes.append(Change(1, stamped))
    quotas.read_until(2000)
    assert ("could be read only after requests up to" in caplog.text) is is_late
