"""A quota change that cannot be read yet when the requests that it applies to can be."""

import pytest
from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME, Message, TopicPartition

from quota.errors import ClusterError
from quota.kafka.brokers.replica_ends import Ends
from quota.kafka.quotas import log as quota_log
from quota.kafka.quotas.log import KafkaQuotas
from quota.records.entity import QuotaEntity
from quota.records.quota_log import Callbacks
from quota.settings.connection import Connection, Security


def change(offset, at):
    """Return a record of the quota topic."""
    value = b'{"entity": {"user": "ann"}, "controller_mutation_rate": 1.0}'
    return Message("quotas", 0, offset, b'{"user":"ann"}', value, timestamp=(TIMESTAMP_LOG_APPEND_TIME, at))


class Topic:
    """The quota topic and its consumer at once; records before `first` are deleted, and open ones are in no commit."""

    def __init__(self):
        self.changes, self.pending, self.open, self.first, self._next = [], [], [], 0, 0

    def get_watermark_offsets(self, *_, cached=False, **__):
        return self.first, len(self.changes) + (len(self.open) if cached else 0)

    def assign(self, partitions):
        self._next = partitions[0].offset

    def unassign(self):
        pass

    def position(self, partitions):
        return [TopicPartition(partition.topic, partition.partition, self._next) for partition in partitions]

    def poll(self, _):
        if self._next >= len(self.changes):
            return None
        self._next += 1
        return self.changes[self._next - 1]


class Replicas:
    """The end offsets that replicas report: those of `topic`; `then` happens after each request."""

    def __init__(self, topic, then):
        self._topic, self._then, self.polls, self.silent = topic, then, 0, False

    def fetch(self, replicas):
        assert replicas == {("broker", 9092): [0]}
        self.polls += 1
        end = len(self._topic.changes) + len(self._topic.pending) + len(self._topic.open)
        answers = Ends({}, complete=False) if self.silent else Ends({0: end}, complete=True)
        self._then(self)
        return answers


@pytest.fixture
def topic(monkeypatch):
    made = Topic()
    monkeypatch.setattr(quota_log, "make_consumer", lambda *_: made)
    monkeypatch.setattr(quota_log, "topic_partitions", lambda *_: [0])
    monkeypatch.setattr(quota_log, "in_sync_replicas", lambda *_: {})
    return made


@pytest.fixture
def replicated(topic, monkeypatch):
    """Return a function that gives the topic replicas."""

    def make(then):
        made = Replicas(topic, then)
        monkeypatch.setattr(quota_log, "ReplicaEnds", lambda *_: made)
        monkeypatch.setattr(quota_log, "in_sync_replicas", lambda *_: {("broker", 9092): [0]})
        return made

    return make


def applies(quotas, until):
    return quotas.read_until(until).timeline.latest(QuotaEntity("ann"), until) is not None


@pytest.mark.parametrize(("stamped", "is_late"), [(999, True), (1000, True), (1001, False)])
def test_a_change_that_reached_the_replicas_late_causes_a_warning(topic, caplog, stamped, is_late):
    """A change in the millisecond of a request applies to it."""
    quotas = KafkaQuotas(Connection(f"late-{stamped}:9092"), "quotas", 5.0, Callbacks())
    topic.changes.append(change(0, 500))
    quotas.read_until(1000)
    assert caplog.text == ""
    topic.changes.append(change(1, stamped))
    quotas.read_until(2000)
    assert ("could be read only after requests up to" in caplog.text) is is_late


@pytest.mark.parametrize("hidden", ["pending", "open"])
def test_a_change_that_a_replica_lacks_or_in_a_transaction_that_ends_soon_is_awaited(topic, replicated, hidden):
    """Its leader has stamped it, and shows it when the other replicas have it, or its transaction has ended."""

    def show(replicas):
        if replicas.polls == 3:
            topic.changes.append(getattr(topic, hidden).pop())

    replicas = replicated(show)
    getattr(topic, hidden).append(change(0, 900))
    assert applies(KafkaQuotas(Connection(f"{hidden}:9092"), "quotas", 5.0, Callbacks()), 1000)
    assert replicas.polls == 3


def test_a_replica_that_stops_responding_does_not_end_the_wait(topic, replicated):
    """It may be the one that has the change."""

    def fall_silent(replicas):
        replicas.silent = replicas.polls in {1, 2}
        if replicas.polls == 4:
            topic.changes.append(topic.pending.pop())

    replicated(fall_silent)
    topic.pending.append(change(0, 900))
    assert applies(KafkaQuotas(Connection("silent:9092"), "quotas", 5.0, Callbacks()), 1000)


@pytest.mark.parametrize(
    ("protocol", "properties"),
    [
        ("SASL_PLAINTEXT", (("sasl.mechanism", "PLAIN"), ("sasl.username", "ann"), ("sasl.password", "secret"))),
        ("SSL", (("enable.ssl.certificate.verification", "false"),)),
    ],
)
def test_replicas_are_not_polled_if_only_librdkafka_can_connect(protocol, properties, topic, monkeypatch, caplog):
    monkeypatch.setattr(quota_log, "in_sync_replicas", lambda *_: pytest.fail("asked"))
    topic.changes.append(change(0, 900))
    security = Security(protocol, more_librdkafka=properties)
    assert applies(KafkaQuotas(Connection("own:9092", security), "quotas", 5.0, Callbacks()), 1000)
    assert "[kafka.librdkafka] has properties of TLS or SASL" in caplog.text


def test_replicas_added_to_a_topic_later_are_polled(replicated, monkeypatch):
    monkeypatch.setattr(quota_log, "_LOOK_SECONDS", 0.0)
    replicas = replicated(lambda _: None)
    monkeypatch.setattr(quota_log, "in_sync_replicas", lambda *_: {})
    quotas = KafkaQuotas(Connection("later:9092"), "quotas", 5.0, Callbacks())
    assert not applies(quotas, 1000)
    monkeypatch.setattr(quota_log, "in_sync_replicas", lambda *_: {("broker", 9092): [0]})
    assert not applies(quotas, 1000)
    assert replicas.polls == 1


def test_a_change_lost_with_its_leader_is_not_awaited(topic, replicated):
    def lose(replicas):
        if replicas.polls == 2:
            topic.pending.clear()

    replicas = replicated(lose)
    topic.pending.append(change(0, 900))
    assert not applies(KafkaQuotas(Connection("lost:9092"), "quotas", 5.0, Callbacks()), 1000)
    assert replicas.polls == 3


def test_a_change_that_never_reaches_its_replicas_is_an_error_after_the_timeout(topic, replicated):
    replicated(lambda _: None)
    topic.pending.append(change(0, 900))
    quotas = KafkaQuotas(Connection("never:9092"), "quotas", 0.2, Callbacks())
    with pytest.raises(ClusterError, match="no records of topic quotas at never:9092 arrived for 0 s, although"):
        quotas.read_until(1000)


@pytest.mark.parametrize("first", [1, 2])
def test_a_log_whose_records_were_deleted_can_be_read_and_says_so_once(topic, caplog, first):
    """All of them, or all but one: what remains applies, and a change that is written now."""
    topic.changes += [change(offset, 500) for offset in range(2)]
    topic.first = first
    log = quota_log.QuotaLog(KafkaQuotas(Connection("deleted:9092"), "quotas", 0.2, Callbacks()), with_entries=True)
    for _ in range(2):
        log.read_to_end()
    assert [entry.offset for entry in log.take_entries()] == list(range(first, 2))
    assert [message.split(",")[0] for message in caplog.messages] == [
        f"the records of topic quotas at deleted:9092 before offset {first} were deleted"
    ]
    topic.changes.append(change(2, 600))
    log.read_to_end()
    assert [entry.offset for entry in log.take_entries()] == [2]


def test_a_running_job_keeps_the_quotas_whose_records_are_deleted_and_says_so(topic, caplog):
    quotas = KafkaQuotas(Connection("deleting:9092"), "quotas", 5.0, Callbacks())
    topic.changes.append(change(0, 500))
    assert applies(quotas, 1000)
    assert caplog.text == ""
    topic.first = 1
    assert applies(quotas, 2000)
    assert "before offset 1 were deleted" in caplog.text


def test_changes_that_an_open_transaction_holds_back_are_not_awaited_for_long(topic, replicated, caplog, monkeypatch):
    """Its writer would stop all decisions, until the brokers abort the transaction."""
    monkeypatch.setattr(quota_log, "_OPEN_SECONDS", 0.1)
    replicated(lambda _: None)
    quotas = KafkaQuotas(Connection("held:9092"), "quotas", 0.2, Callbacks())
    topic.open.append(change(0, 900))
    assert not applies(quotas, 1000)
    topic.changes.append(topic.open.pop())
    assert applies(quotas, 2000)
    assert "could be read only after requests up to" in caplog.text


def test_a_reader_that_runs_for_days_forgets_what_was_replaced_more_than_a_week_ago(topic, monkeypatch):
    """It may still be asked for requests of a week ago; and for older ones, if it is that far behind."""
    day = 24 * 3_600_000
    monkeypatch.setattr(quota_log, "now_ms", lambda: 20 * day)
    monkeypatch.setattr(quota_log, "_FORGET_SECONDS", 0.0)
    topic.changes += [change(offset, offset * day) for offset in range(20)]
    for behind, kept in ((0, 7), (3, 10)):
        log = quota_log.QuotaLog(KafkaQuotas(Connection("weeks:9092"), "quotas", 5.0, Callbacks()))
        log.decided_until = (20 - behind) * day
        log.read_to_end()
        assert len([at for at in range(20) if log.timeline.latest(QuotaEntity("ann"), at * day)]) == kept


def test_a_clock_that_was_ahead_counts_until_the_next_change(topic, monkeypatch):
    """A service that pushes quotas would otherwise push for days what is scheduled for these days."""
    monkeypatch.setattr(quota_log, "now_ms", lambda: 1000)
    topic.changes.append(change(0, at=9000))
    log = quota_log.QuotaLog(KafkaQuotas(Connection("ahead:9092"), "quotas", 5.0, Callbacks()))
    log.read_to_end()
    assert (log.now, len(log.timeline.configured(log.now))) == (9000, 1)
    topic.changes.append(change(1, at=1500))
    log.read_to_end()
    assert (log.now, [scheduled.moment for scheduled in log.timeline.scheduled(log.now)]) == (1500, [9000])
