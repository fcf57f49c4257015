"""CreatePartitions through a channel."""

import pytest

from tests.support.wire.requests import growth
from tests.unit.gateway.cluster import Cluster


def errors(answer):
    return {each["name"]: each["errorCode"] for each in answer["results"]}


def test_a_topic_costs_the_partitions_that_are_added(play):
    """Validated, then described, then decided."""
    on = play(Cluster(a=2, b=5))
    request = on.mutate(37, 3, growth(a=6, b=7))

    assert [(each.name, each.partitions, each.count) for each in request.topics] == [("a", 4, 6), ("b", 2, 7)]
    assert [errors(each) for each in on.answers()] == [{"a": 0, "b": 0}]
    assert on.keys_seen() == [37, 3, 37]
    assert {name: count for name, (_, count) in on.cluster.topics.items()} == {"a": 6, "b": 7}


def test_topics_that_the_cluster_would_reject_are_answered_without_a_decision(play):
    on = play(Cluster(a=2))
    answer = on.call(37, 3, growth(a=2, nowhere=9))

    assert errors(answer) == {"a": 37, "nowhere": 3}
    assert on.ports.requested == []
    assert on.changes_seen() == []


@pytest.mark.parametrize("version", [0, 1, 2])
def test_an_old_version_is_decided_in_its_own_version(play, version):
    """The decision depends on it: it is admitted and muted."""
    on = play(Cluster(a=1))
    assert on.mutate(37, version, growth(a=2), throttle_ms=50).api_version == version
    assert [(errors(each), each["throttleTimeMs"]) for each in on.answers()] == [({"a": 0}, 50)]


def test_a_topic_that_brokers_do_not_know_yet_is_polled(play):
    """It was created just before: the controller knows it already."""
    on = play(Cluster(a=1))
    on.cluster.unseen.add("a")
    on.send(37, 3, growth(a=2))
    on.serve()
    assert (on.ports.requested, on.ports.pauses) == ([], [10])

    on.cluster.unseen.clear()
    on.end_pause()
    assert [each.partitions for each in on.decide().topics] == [1]
    assert [errors(each) for each in on.answers()] == [{"a": 0}]


@pytest.mark.parametrize(("timeout_ms", "most"), [(30_000, 5000), (1000, 500)])
@pytest.mark.parametrize(("is_deleted", "error"), [(True, 3), (False, 7)])
def test_a_topic_that_stays_unknown_does_not_grow(play, timeout_ms, most, is_deleted, error):
    """After five seconds, or half of the client's time limit, the controller is queried for a deletion meanwhile."""
    on = play(Cluster(a=1))
    on.cluster.unseen.add("a")
    on.send(37, 3, {**growth(a=2), "timeoutMs": timeout_ms})
    on.serve()
    if is_deleted:
        del on.cluster.topics["a"]
    waited = on.end_pauses()

    assert waited[:4] == [10, 20, 40, 80]
    assert (sum(waited), max(waited) <= 640) == (most, True)
    assert [errors(each) for each in on.answers()] == [{"a": error}]
    assert (on.ports.requested, on.changes_seen()) == ([], [])


def test_the_same_growth_has_the_same_content_and_a_different_one_does_not(play):
    """The content has user, client-id, version, the topic's id, and its partitions before and after."""

    def content(cluster, version=3, client_id="app", count=4):
        on = play(cluster, client_id=client_id)
        on.send(37, version, growth(a=count))
        on.serve()
        (ask,) = on.ports.requested
        assert ask.once
        return ask.content

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


@pytest.mark.parametrize("validate_only", [True, False])
def test_an_absurd_number_of_partitions_never_reaches_the_controller(play, validate_only):
    """It would exhaust its memory, also to validate; no topic of the request is touched."""
    on = play(Cluster(a=1, b=1))
    topics = [{"name": "a", "count": 2, "assignments": None}, {"name": "b", "count": 2**31 - 1, "assignments": None}]
    answer = on.call(37, 3, {"topics": topics, "timeoutMs": 30_000, "validateOnly": validate_only})
    assert [(each["name"], each["errorCode"]) for each in answer["results"]] == [("a", 37), ("b", 37)]
    assert "topic b would have 2147483647 partitions" in answer["results"][0]["errorMessage"]
    assert on.seen == []


@pytest.mark.parametrize(("topics", "errors"), [(10, {3}), (11, {37})])
def test_many_topics_of_a_request_never_exhaust_the_controller_together(play, topics, errors):
    """A million partitions are forwarded, here to missing topics; more are not."""
    on = play(Cluster())
    grown = [{"name": f"t{number}", "count": 100_000, "assignments": None} for number in range(topics)]
    answer = on.call(37, 3, {"topics": grown, "timeoutMs": 30_000, "validateOnly": False})
    assert {each["errorCode"] for each in answer["results"]} == errors
