"""CreatePartitions through a channel."""

import pytest

from tests.support.wire.requests import deletion, growth
from tests.unit.quota.gateway.cluster import Cluster


def errors(answer):
    return {result["name"]: result["errorCode"] for result in answer["results"]}


def test_a_topic_costs_the_partitions_that_are_added(play):
    """Described, then validated, then decided; described again, since it may have been made again, and grown."""
    on = play(Cluster(a=2, b=5))
    request = on.mutate(37, 3, growth(a=6, b=7))

    assert [(topic.name, topic.partitions, topic.count) for topic in request.topics] == [("a", 4, 6), ("b", 2, 7)]
    assert [errors(answer) for answer in on.answers()] == [{"a": 0, "b": 0}]
    assert on.keys_seen() == [3, 37, 3, 37]
    assert {name: count for name, (_, count) in on.cluster.topics.items()} == {"a": 6, "b": 7}


@pytest.mark.parametrize("version", [0, 1, 2])
def test_an_old_version_is_decided_in_its_own_version(play, version):
    """The decision depends on it: it is admitted and muted."""
    on = play(Cluster(a=1))
    assert on.mutate(37, version, growth(a=2), throttle_ms=50).api_version == version
    assert [(errors(answer), answer["throttleTimeMs"]) for answer in on.answers()] == [({"a": 0}, 50)]


def test_a_topic_that_brokers_do_not_know_yet_is_polled(play):
    """It was created just before: the controller knows it already."""
    on = play(Cluster(a=1))
    on.cluster.unseen.add("a")
    on.exchange(37, 3, growth(a=2))
    assert (on.ports.requested, on.ports.pauses) == ([], [10])

    on.cluster.unseen.clear()
    on.end_pause()
    assert [topic.partitions for topic in on.decide().topics] == [1]
    assert [errors(answer) for answer in on.answers()] == [{"a": 0}]


@pytest.mark.parametrize(("timeout_ms", "most"), [(30_000, 5000), (1000, 500)])
@pytest.mark.parametrize(("is_deleted", "error"), [(True, 3), (False, 7)])
def test_a_topic_that_stays_unknown_does_not_grow(play, timeout_ms, most, is_deleted, error):
    """After five seconds, or half of the client's time limit, the controller is queried for a deletion meanwhile."""
    on = play(Cluster(a=1))
    on.cluster.unseen.add("a")
    on.exchange(37, 3, {**growth(a=2), "timeoutMs": timeout_ms})
    if is_deleted:
        del on.cluster.topics["a"]
    waited = on.end_pauses()

    assert waited[:4] == [10, 20, 40, 80]
    assert (sum(waited), max(waited) <= 640) == (most, True)
    assert [errors(answer) for answer in on.answers()] == [{"a": error}]
    assert (on.ports.requested, on.changes_seen()) == ([], [])


def test_the_same_growth_has_the_same_content_and_a_different_one_does_not(play):
    """The content has user, client-id, version, the topic's id, and its partitions before and after."""

    def content(cluster, version=3, client_id="app", count=4):
        on = play(cluster, client_id=client_id)
        on.exchange(37, version, growth(a=count))
        (ask,) = on.ports.requested
        assert ask.happens_once
        return ask.content_digest

    again = Cluster(b=1)
    again.create("a", 2)  # another topic of that name, with another id
    same = content(Cluster(a=2))
    others = [
        content(Cluster(a=3)),
        content(again),
        content(Cluster(a=2), version=2),
        content(Cluster(a=2), client_id="app2"),
        content(Cluster(a=2), count=5),
    ]
    assert content(Cluster(a=2)) == same
    assert len({same, *others}) == 6


def grow(on, version=3, *, validate_only=False, **counts):
    """Send a growth, and have the broker answer what it gets until a decision is needed."""
    on.exchange(37, version, {**growth(**counts), "validateOnly": validate_only})


def validated(on):
    """Return the growths that the controller got to validate: the counts by topic, of each request."""
    sent = [message for key, _, message in on.seen if key == 37 and message["validateOnly"]]
    return [{topic["name"]: topic["count"] for topic in message["topics"]} for message in sent]


@pytest.mark.parametrize("validate_only", [True, False])
@pytest.mark.parametrize(
    ("counts", "added"),
    [({"a": 2, "b": 10_001}, 10_001), ({"a": 2**31 - 1, "b": 0}, 2**31 - 2), ({"a": 10_002}, 10_001)],
)
def test_more_additions_than_a_controller_can_write_never_reach_it(play, validate_only, counts, added):
    """It would place them all before it fails; no topic of the request is touched."""
    on = play(Cluster(a=1, b=1))
    grow(on, validate_only=validate_only, **counts)
    (answer,) = on.answers()
    assert errors(answer) == dict.fromkeys(counts, 37)
    assert answer["results"][0]["errorMessage"].startswith(f"this request would add {added} partitions")
    assert (on.keys_seen(), on.ports.requested) == ([3], [])


def test_ten_thousand_additions_are_validated_and_those_of_missing_topics_do_not_count(play):
    on = play(Cluster(a=1))
    grow(on, a=10_001, nowhere=2**31 - 1)
    assert validated(on) == [{"nowhere": 1}, {"a": 10_001}]
    assert [topic.partitions for topic in on.decide().topics] == [10_000]
    assert [errors(answer) for answer in on.answers()] == [{"a": 0, "nowhere": 3}]


def test_a_request_that_only_validates_is_neither_decided_nor_rejected(play):
    on = play(Cluster(a=1, b=5))
    on.context.debts.record(("ANONYMOUS", "app"), 60_000, on.ports.time, None)
    grow(on, validate_only=True, a=3, b=2, nowhere=2)
    (answer,) = on.answers()
    assert (errors(answer), answer["throttleTimeMs"]) == ({"a": 0, "b": 37, "nowhere": 3}, 0)
    assert (on.ports.requested, on.changes_seen()) == ([], [])


def test_a_strict_client_in_debt_is_rejected_without_placing_partitions(play):
    """A topic gets the cluster's own error if the cluster returns it before it applies its quota."""
    on = play(Cluster(a=1, b=5, c=1))
    on.context.debts.record(("ANONYMOUS", "app"), 5000, on.ports.time, None)
    assigned = {"name": "c", "count": 9, "assignments": [{"brokerIds": [1]}]}  # one for eight partitions
    topics = [*growth(a=9, b=5, nowhere=9)["topics"], assigned]
    answer = on.call(37, 3, {"topics": topics, "timeoutMs": 30_000, "validateOnly": False})

    assert validated(on) == [{"nowhere": 1}, {"a": 1, "b": 5, "c": 9}]
    assert (errors(answer), answer["throttleTimeMs"]) == ({"a": 89, "b": 37, "c": 39, "nowhere": 3}, 5000)
    assert on.changes_seen() == []


def test_growths_of_a_user_are_validated_one_at_a_time_in_their_order(play):
    """Those of another user are not delayed; a client that leaves gives up its turn."""
    first = play(Cluster(a=1))
    first.send(37, 3, growth(a=2))
    first.channel.from_broker(first.next_answer())  # described
    second, third = (play(first.cluster, context=first.context) for _ in range(2))
    for later in (second, third):
        grow(later, a=3)
        assert later.keys_seen() == [3]
    assert (second.ports.pauses, third.ports.pauses) == ([10], [20])

    second.end_pause()
    assert (validated(second), second.ports.pauses) == ([], [10])
    second.channel.close()
    first.serve()
    assert validated(first) == [{"a": 2}]
    third.end_pause()
    assert validated(third) == [{"a": 3}]


def test_a_growth_waits_for_its_turn_until_its_own_time_limit(play):
    """The first one's broker does not answer: the turn ends with the first one's time, and that one is not decided."""
    first = play(Cluster(a=1))
    first.send(37, 3, {**growth(a=2), "timeoutMs": 3000})
    first.channel.from_broker(first.next_answer())  # described; its validation is not answered
    impatient, patient = (play(first.cluster, context=first.context) for _ in range(2))
    impatient.exchange(37, 3, {**growth(a=3), "timeoutMs": 1000})
    patient.exchange(37, 3, {**growth(a=4), "timeoutMs": 5000})

    assert sum(impatient.end_pauses()) == 1000
    assert [errors(answer) for answer in impatient.answers()] == [{"a": 7}]
    assert (impatient.keys_seen(), impatient.ports.requested) == ([3], [])

    while not validated(patient):
        patient.end_pause()
    assert patient.ports.time == 1000 + 3000

    first.ports.time += 3000
    first.serve()
    assert [errors(answer) for answer in first.answers()] == [{"a": 7}]
    assert (first.ports.requested, first.changes_seen()) == ([], [])
    assert [topic.count for topic in patient.decide().topics] == [4]


@pytest.mark.parametrize("partitions", [2, 1])
def test_a_topic_that_is_made_again_while_its_growth_is_decided_does_not_grow(play, partitions):
    """It was charged for four partitions, and could have gained five."""
    on = play(Cluster(a=2, b=1))
    on.exchange(37, 3, growth(a=6, b=2))
    del on.cluster.topics["a"]
    on.cluster.create("a", partitions)
    on.decide()
    (answer,) = on.answers()
    assert errors(answer) == {"a": 7, "b": 0}
    text = "the topic was recreated after its growth was charged, so it was not grown; retry"
    assert [result["errorMessage"] for result in answer["results"] if result["name"] == "a"] == [text]
    assert on.cluster.topics["a"][1] == partitions


def test_a_topic_is_changed_by_one_request_at_a_time(play):
    """A deletion waits for a growth of the topic, and is charged for what has grown."""
    on = play(Cluster(a=2))
    deleter = play(on.cluster, context=on.context)
    grow(on, a=6)
    deleter.exchange(20, 6, deletion("a"))
    assert deleter.ports.requested == []
    on.decide()
    deleter.end_pauses()
    (ask,) = deleter.ports.requested
    assert [topic.partitions for topic in ask.request.topics] == [6]
