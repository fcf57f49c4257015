"""Topics changed through the gateway lately, which the broker's metadata does not show yet, and clients' debts."""

import pytest

from quota.gateway import memory as module
from quota.gateway.memory import NO_ID, Debt, Debts, ExistingTopic, KnownBuckets, RecentTopics
from quota.records.request import MutationRequest, Operation, TopicMutation
from tests.support.wire.requests import creation, deletion, growth, topic
from tests.unit.quota.gateway.cluster import Cluster, topic_id
from tests.unit.quota.gateway.play import decision_on

MINUTE_MS = 60_000


def carry_out(on, key, version, message):
    """Send an admitted request; return the cost of each topic."""
    request = on.mutate(key, version, message)
    return {mutation.name: mutation.partitions for mutation in request.topics}


@pytest.mark.parametrize("identity", ["new", topic_id(1)], ids=["name", "id"])
def test_a_topic_created_just_before_costs_its_partitions_although_the_broker_does_not_know_it(play, identity):
    """Without this a storm would delete without a cost: metadata lags by seconds then."""
    on = play(Cluster())
    on.cluster.unseen.add("new")
    carry_out(on, 19, 7, creation(topic("new", 6)))
    assert carry_out(on, 20, 6, deletion(identity)) == {"new": 6}
    assert on.cluster.topics == {}
    assert on.ports.pauses == []


def test_a_change_is_remembered_for_a_minute():
    recent = RecentTopics()
    recent.record(ExistingTopic("a", topic_id(1), 3), 1000)
    assert recent.find("a", NO_ID, 1000 + MINUTE_MS) == ExistingTopic("a", topic_id(1), 3)
    assert recent.find(None, topic_id(1), 1000 + MINUTE_MS) == ExistingTopic("a", topic_id(1), 3)
    assert recent.find("a", NO_ID, 1001 + MINUTE_MS) is None
    assert recent.find("b", NO_ID, 1000) is None
    assert recent.find(None, topic_id(2), 1000) is None


@pytest.fixture
def _few(monkeypatch):
    """A hundred topics are remembered, instead of a hundred thousand."""
    monkeypatch.setattr(module, "_MAX_TOPICS", 100)


@pytest.mark.usefixtures("_few")
def test_a_flood_of_topics_displaces_the_oldest():
    recent = RecentTopics()
    for number in range(101):
        recent.record(ExistingTopic(f"t{number}", number.to_bytes(16), 1), 0)
    assert recent.find("t0", NO_ID, 0) is None
    assert recent.find(None, (1).to_bytes(16), 0) == ExistingTopic("t1", (1).to_bytes(16), 1)
    assert recent.find("t100", NO_ID, 0) is not None


def test_a_recreated_topic_is_found_by_its_new_id_alone():
    recent = RecentTopics()
    recent.record(ExistingTopic("a", topic_id(1), 3), 0)
    recent.record(ExistingTopic("a", topic_id(2), 5), 10)
    assert recent.find(None, topic_id(1), 10) is None
    assert recent.find(None, topic_id(2), 10) == ExistingTopic("a", topic_id(2), 5)


def test_a_growth_just_before_counts_although_the_broker_does_not_know_it(play):
    """The broker still reports two partitions: the deletion costs ten, and another growth starts from ten."""
    on = play(Cluster(a=2))
    on.cluster.lagging["a"] = on.cluster.topics["a"]
    assert carry_out(on, 37, 3, growth(a=10)) == {"a": 8}
    assert carry_out(on, 37, 3, growth(a=11)) == {"a": 1}
    assert carry_out(on, 20, 6, deletion("a")) == {"a": 11}


def test_a_topic_of_the_same_name_created_by_another_client_is_different(play):
    """It costs the broker's number: the remembered topic had a different id."""
    on = play(Cluster())
    carry_out(on, 19, 7, creation(topic("a", 50)))
    del on.cluster.topics["a"]
    on.cluster.create("a", 3)
    assert carry_out(on, 20, 6, deletion("a")) == {"a": 3}


@pytest.mark.parametrize(("old", "new"), [(1, 1000), (1000, 1), (5, 5)])
def test_metadata_that_lags_does_not_bring_back_a_topic_that_was_deleted(play, old, new):
    """The broker shows the first one all the time; the last deletion costs what the second one has, and is another."""
    on = play(Cluster(a=old))
    on.cluster.lagging["a"] = on.cluster.topics["a"]

    def delete():
        on.exchange(20, 6, deletion("a"))
        (ask,) = on.ports.requested
        return {mutation.name: mutation.partitions for mutation in on.decide().topics}, ask.content_digest

    cost, first = delete()
    assert cost == {"a": old}
    carry_out(on, 19, 7, creation(topic("a", new)))
    cost, second = delete()
    assert cost == {"a": new}
    assert first != second
    assert on.cluster.topics == {}


@pytest.mark.parametrize("identity", ["a", topic_id(1)], ids=["name", "id"])
def test_a_topic_that_was_deleted_is_not_charged_again_while_the_broker_still_shows_it(play, identity):
    on = play(Cluster(a=20))
    carry_out(on, 20, 6, deletion("a"))
    on.cluster.create("a", 20)
    on.cluster.lagging["a"] = (topic_id(1), 20)
    del on.cluster.topics["a"]
    on.answers()
    on.exchange(20, 6, deletion(identity))
    on.end_pauses()
    (answer,) = on.answers()
    assert [response["errorCode"] for response in answer["responses"]] == [100 if isinstance(identity, bytes) else 3]
    assert on.ports.requested == []


def test_the_ids_of_deleted_topics_are_remembered_for_a_minute():
    """Also that of a topic that another one of its name has replaced."""
    recent = RecentTopics()
    recent.record(ExistingTopic("a", topic_id(1), 3), 1000)
    recent.record(ExistingTopic("a", topic_id(2), 3), 2000)
    assert [recent.is_gone(topic_id(number), 2000 + MINUTE_MS) for number in (1, 2)] == [True, False]
    assert not recent.is_gone(topic_id(1), 2001 + MINUTE_MS)
    recent.record_deletion(ExistingTopic("a", topic_id(1), 3), 3000)  # which tells nothing of the second one
    assert recent.find("a", NO_ID, 3000) == ExistingTopic("a", topic_id(2), 3)
    recent.record_deletion(ExistingTopic("a", NO_ID, 3), 3000)  # whichever it was
    assert (recent.find("a", NO_ID, 3000), recent.is_gone(topic_id(2), 3000)) == (None, True)
    assert not recent.is_gone(NO_ID, 3000)


@pytest.mark.usefixtures("_few")
def test_a_flood_of_deletions_displaces_the_oldest_ids():
    recent = RecentTopics()
    for number in range(1, 102):
        recent.record_deletion(ExistingTopic(f"t{number}", number.to_bytes(16), 1), 0)
    assert [recent.is_gone(number.to_bytes(16), 0) for number in (1, 2)] == [False, True]


def test_changes_are_forgotten_when_their_time_is_over():
    """A topic a second for an hour, and as many deletions by name: six of each are of the last five seconds."""
    recent = RecentTopics(5000)
    for second in range(3600):
        recent.record(ExistingTopic("growing", NO_ID, second), second * 1000)
        recent.record(ExistingTopic(f"topic-{second}", NO_ID, 1), second * 1000)
        recent.record_deletion(ExistingTopic(f"gone-{second}", NO_ID, 1), second * 1000)
    assert (len(recent._changes), len(recent._gone)) == (1 + 6, 6)  # noqa: SLF001 nothing else shows what is remembered


def test_a_deletion_without_an_id_is_that_of_the_name_until_a_topic_has_it_again():
    recent = RecentTopics()
    recent.record_deletion(ExistingTopic("a", NO_ID, 3), 0)
    assert recent.is_gone("a", 0)
    recent.record(ExistingTopic("a", NO_ID, 3), 10)
    assert not recent.is_gone("a", 10)


def test_a_debt_ends_when_it_is_paid_off_or_when_a_decision_tells_of_none():
    debts, client = Debts(), ("alice", None)
    debts.record(client, 300, 1000, None)
    assert debts.find(client, 1299) == Debt(1300, 1000, None)
    assert debts.find(client, 1300) is None
    debts.record(client, 0, 1100, None)
    assert debts.find(client, 1100) is None


def test_a_bucket_pays_its_debt_off_and_is_forgotten_once_no_quota_is_enforced():
    """20 mutations at 5 a second; 55 is its burst."""
    request = MutationRequest("r", Operation.CREATE_TOPICS, 7, [TopicMutation("t", 10)], "alice")
    buckets, client = KnownBuckets(), ("alice", "<none>")
    assert buckets.charge(client, request, 0) is None
    buckets.record(decision_on(request, tokens=-20), 1000)
    assert [buckets.debt_ms(client, now) for now in (1000, 4999, 5000)] == [4000, 1, 0]
    assert [buckets.charge(client, request, now).tokens for now in (4800, 500_000, 500_000)] == [-1, 45, 35]
    buckets.record(decision_on(request, quota=None, burst=None, tokens=None), 500_000)
    assert buckets.charge(client, request, 500_000) is None


def test_the_debts_of_ten_thousand_clients_are_remembered():
    """Those that were decided last; a client that is forgotten is only validated again."""
    debts = Debts()
    for number in range(10_001):
        debts.record(("alice", str(number)), 300, 0, None)
    assert debts.find(("alice", "0"), 0) is None
    assert debts.find(("alice", "1"), 0) is not None
