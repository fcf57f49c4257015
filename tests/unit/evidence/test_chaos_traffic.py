"""The traffic of a chaos run."""

from quota.settings import load_settings
from tests.support.chaos import traffic
from tests.support.waiting import until


class Producer:
    """A producer that remembers the topics of what it is given."""

    def __init__(self):
        self.topics = []
        self.flushed_at = []

    def produce(self, topic, *_, **__):
        self.topics.append(topic)

    def poll(self, _):
        pass

    def flush(self, _):
        self.flushed_at.append(len(self.topics))
        return 0


def test_quotas_do_not_change_while_a_replica_hangs_and_requests_continue(monkeypatch):
    producer = Producer()
    monkeypatch.setattr(traffic, "Producer", lambda _: producer)
    monkeypatch.setattr(traffic, "_QUOTA_SECONDS", 0.02)
    settings = load_settings([], environment={}, with_default_file=False)
    flow, quotas = traffic.Traffic(settings), settings.topics.quotas
    with flow.flowing(200):
        until(lambda: quotas in producer.topics, poll_seconds=0.01)
        with flow.steady_quotas():
            (begin,) = producer.flushed_at
            until(lambda: len(producer.topics) > begin + 50, poll_seconds=0.01)
            assert producer.topics[begin:].count(quotas) == 0
        after = len(producer.topics)
        until(lambda: quotas in producer.topics[after:], poll_seconds=0.01)
