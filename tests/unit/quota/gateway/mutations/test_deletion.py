"""DeleteTopics through a channel: by names, by ids, and tricks with both."""

import time
from itertools import combinations_with_replacement, product

import pytest

from quota.gateway.memory import ExistingTopic
from tests.support.wire.requests import deletion
from tests.unit.quota.gateway.cluster import NO_ID, NOT_THERE, Cluster, topic_id


def errors(answer):
    return {(topic["name"] or topic["topicId"]): topic["errorCode"] for topic in answer["responses"]}


def costs(request):
    return {topic.name: topic.partitions for topic in request.topics}


def deleted(on):
    """Return the topics of the deletions that reached the broker, by request."""
    return [[topic["name"] or topic["topicId"] for topic in message["topics"]] for _, _, message in on.changes_seen()]


@pytest.mark.parametrize("message", [deletion("a", "b"), deletion(topic_id(1), topic_id(2))], ids=["name", "id"])
def test_a_topic_costs_the_partitions_that_it_has(play, message):
    on = play(Cluster(a=3, b=5))
    on.exchange(20, 6, message)
    assert on.changes_seen() == []
    request = on.decide()

    assert costs(request) == {"a": 3, "b": 5}
    assert [list(errors(answer).values()) for answer in on.answers()] == [[0, 0]]
    by_id = deletion(topic_id(1), topic_id(2))
    assert [(version, message) for _, version, message in on.changes_seen()] == [(6, by_id)]
    assert on.cluster.topics == {}


@pytest.mark.parametrize("version", [1, 2, 3, 4, 5])
def test_versions_without_ids_name_their_topics(play, version):
    """Up to version 5; those below are admitted and throttled."""
    on = play(Cluster(a=3, b=1))
    request = on.mutate(20, version, {"topicNames": ["a", "b"], "timeoutMs": 30_000}, throttle_ms=10)

    assert (costs(request), request.api_version) == ({"a": 3, "b": 1}, version)
    (answer,) = on.answers()
    assert errors(answer) == {"a": 0, "b": 0}
    assert on.cluster.topics == {}


def test_rejected_topics_are_answered_with_name_and_id_however_they_were_requested(play):
    """The responses are those of a broker; the topics stay."""
    on = play(Cluster(a=3, b=5))
    on.mutate(20, 6, deletion("a", topic_id(2)), rejected={"a", "b"}, throttle_ms=600)

    (answer,) = on.answers()
    assert answer["throttleTimeMs"] == 600
    assert [(topic["name"], topic["topicId"], topic["errorCode"]) for topic in answer["responses"]] == [
        ("a", topic_id(1), 89),
        ("b", topic_id(2), 89),
    ]
    assert set(on.cluster.topics) == {"a", "b"}
    assert on.changes_seen() == []


def test_unknown_and_forbidden_topics_get_the_clusters_answer_uncharged(play):
    """A topic that is unknown is not forwarded: it could exist a moment later."""
    on = play(Cluster(a=3, locked=2))
    on.cluster.forbidden.add("locked")
    on.exchange(20, 6, deletion("nowhere", "a", "locked", bytes(15) + b"\x99"))
    on.end_pauses()
    assert deleted(on) == [["locked"]]
    on.cluster.create("nowhere", 50)

    request = on.decide()

    assert costs(request) == {"a": 3}
    assert deleted(on)[1:] == [[topic_id(1)]]
    assert "nowhere" in on.cluster.topics
    (answer,) = on.answers()
    assert errors(answer) == {"a": 0, "nowhere": 3, "locked": 29, bytes(15) + b"\x99": 100}
    assert [topic["errorMessage"] for topic in answer["responses"] if topic["name"] == "nowhere"] == [NOT_THERE]


NAMED = {
    "n": {"name": "a", "topicId": NO_ID},
    "i": {"name": None, "topicId": topic_id(1)},
    "b": {"name": "a", "topicId": topic_id(1)},
    "0": {"name": None, "topicId": NO_ID},
}
WAYS = ["".join(ways) for count in range(1, 4) for ways in product("nib0", repeat=count)]
WAYS += ["".join(ways) for count in (4, 5) for ways in combinations_with_replacement("nib0", count)]
"""Requests that name one topic up to five times: by name, by id, by both, and by nothing; up to three in any order."""


@pytest.mark.parametrize("rejected", [True, False])
def test_no_combination_of_names_and_ids_deletes_a_topic_without_admission(play, rejected):
    """However it is named: rejected, the topic stays; admitted, the result is that of the broker alone."""
    for ways in WAYS:
        message = {"topics": [NAMED[way] for way in ways], "timeoutMs": 1000}
        alone, cluster = Cluster(a=1), Cluster(a=1)
        alone.answer(20, 6, message)
        on = play(cluster)
        on.exchange(20, 6, message)
        assert set(cluster.topics) == {"a"}, ways
        assert bool(on.ports.requested) == (not alone.topics), ways
        if on.ports.requested:
            on.decide(rejected={"a"} if rejected else ())
        assert set(cluster.topics) == ({"a"} if rejected else set(alone.topics)), ways
        assert len(on.answers()) == 1


@pytest.mark.parametrize(("identity", "polls"), [("a", 8), (topic_id(1), 2)], ids=["name", "id"])
def test_a_topic_that_brokers_do_not_know_yet_is_charged(play, identity, polls):
    """It was created through another gateway. The controller knows its name, so the broker is polled until it does.

    The controller cannot be queried for an id.
    """
    on = play(Cluster(a=3))
    on.cluster.unseen.add("a")
    on.exchange(20, 6, deletion(identity))
    for _ in range(polls - 1):
        on.end_pause()
    assert (on.ports.requested, on.changes_seen()) == ([], [])

    on.cluster.unseen.clear()
    on.end_pause()
    assert costs(on.decide()) == {"a": 3}
    assert on.cluster.topics == {}


@pytest.mark.parametrize("version", [5, 6])
def test_a_topic_that_the_broker_does_not_know_in_time_is_not_deleted(play, version):
    """Its cost is unknown. The client gets an error, and the other topics continue."""
    on = play(Cluster(a=3, late=1))
    on.cluster.unseen.add("late")
    names = ["a", "late"]
    message = {"topicNames": names, "timeoutMs": 1000} if version < 6 else {**deletion(*names), "timeoutMs": 1000}
    on.exchange(20, version, message)
    waited = sum(on.end_pauses())
    on.decide()

    (answer,) = on.answers()
    assert (waited, errors(answer)) == (500, {"a": 0, "late": 7})
    assert set(on.cluster.topics) == {"late"}


def test_a_topic_that_the_client_may_not_alter_is_awaited_briefly(play):
    """The client may delete it, but the controller does not tell it whether there is one: then it is a missing one."""
    on = play(Cluster(a=3))
    on.cluster.unseen.add("a")
    on.cluster.unalterable.add("a")
    on.exchange(20, 6, deletion("a"))
    waited = sum(on.end_pauses())
    (answer,) = on.answers()
    assert (waited, on.ports.requested, deleted(on), errors(answer)) == (600, [], [], {"a": 3})


@pytest.mark.parametrize("known", [topic_id(2), topic_id(9)], ids=["there", "missing"])
def test_a_name_that_brokers_do_not_know_yet_is_awaited_beside_an_id(play, known):
    """A broker ignores the names in a request for metadata that has an id, too."""
    on = play(Cluster(late=3, there=1))
    on.cluster.unseen.add("late")
    on.cluster.unalterable.add("late")
    on.exchange(20, 6, deletion("late", known))
    on.cluster.unseen.clear()
    on.end_pauses()
    assert costs(on.decide())["late"] == 3
    assert "late" not in on.cluster.topics


def test_without_an_answer_of_the_controller_no_deletion_is_free(play):
    """It is busy: its error is the client's answer, and nothing is deleted."""
    on = play(Cluster(a=3, late=1))
    on.cluster.unseen.add("late")
    on.cluster.controller_error = 7
    on.mutate(20, 6, deletion("a", "late", "gone"))

    (answer,) = on.answers()
    assert errors(answer) == {"a": 0, "late": 7, "gone": 7}
    assert set(on.cluster.topics) == {"late"}


def test_many_topics_are_polled_less_often(play):
    names = [f"t{number}" for number in range(200)]
    on = play(Cluster(**dict.fromkeys(names, 1)))
    on.cluster.unseen.update(names)
    on.exchange(20, 6, deletion(*names))
    waited = on.end_pauses()
    assert (waited[:2], sum(waited)) == ([40, 80], 5000)


def test_a_deletion_happens_once_and_is_identified_by_the_topics_id(play):
    """Two attempts have one content, by name or by id, unless the topic has grown; another one of its name has another.

    Otherwise who waits for the decision on one partition would delete a thousand by it.
    """

    def content(cluster, message):
        on = play(cluster)
        on.exchange(20, 6, message)
        (ask,) = on.ports.requested
        assert ask.happens_once
        return ask.content_digest

    again = Cluster(b=1)
    again.create("a", 3)
    same = content(Cluster(a=3), deletion("a"))
    assert content(Cluster(a=3), deletion(topic_id(1))) == same
    assert content(again, deletion("a")) != same
    assert content(Cluster(a=4), deletion("a")) != same


@pytest.mark.parametrize("message", [deletion("a"), deletion(topic_id(1))], ids=["name", "id"])
def test_a_topic_that_was_deleted_elsewhere_costs_nothing(play, message):
    """It was created through this gateway a moment ago, and deleted at a broker or through another gateway."""
    on = play(Cluster(a=50))
    on.context.recent.record(ExistingTopic("a", topic_id(1), 50), on.ports.time)
    del on.cluster.topics["a"]
    for _ in range(2):
        on.exchange(20, 6, message)
        on.end_pauses()
        (answer,) = on.answers()
        assert list(errors(answer).values()) in ([3], [100])
    assert on.ports.requested == []


@pytest.mark.parametrize("message", [deletion("a"), deletion(topic_id(1))], ids=["name", "id"])
def test_a_permission_on_the_cluster_is_a_right_to_delete(play, message):
    """Metadata does not show it; the controller tells it by its answer for a topic that cannot exist."""
    on = play(Cluster(a=50))
    on.cluster.forbidden.add("a")
    on.cluster.may_delete_all = True
    assert costs(on.mutate(20, 6, message)) == {"a": 50}
    assert on.cluster.topics == {}


@pytest.mark.parametrize("message", [deletion("a"), deletion(topic_id(1))], ids=["name", "id"])
@pytest.mark.parametrize(
    ("may_delete_all", "text"), [(False, "Topic authorization failed."), (True, "the number of its partitions")]
)
def test_a_topic_whose_partitions_the_client_may_not_see_is_not_deleted_for_free(play, message, may_delete_all, text):
    """With a permission on the cluster it would be deleted, so it is rejected; otherwise the cluster rejects it."""
    on = play(Cluster(a=50))
    on.cluster.hidden.add("a")
    on.cluster.may_delete_all = may_delete_all
    (topic,) = on.call(20, 6, message)["responses"]
    assert (topic["errorCode"], topic["errorMessage"][: len(text)]) == (29, text)
    assert (on.ports.requested, on.ports.pauses) == ([], [])
    assert set(on.cluster.topics) == {"a"}


def test_if_the_controller_does_not_tell_whether_the_client_may_delete_the_topic_is_charged(play):
    on = play(Cluster(a=50))
    on.cluster.forbidden.add("a")
    answer = on.cluster.answer
    busy = {"throttleTimeMs": 0, "responses": [{"name": "?", "errorCode": 7, "errorMessage": None}]}
    on.cluster.answer = lambda key, version, message: busy if "topicNames" in message else answer(key, version, message)
    assert costs(on.mutate(20, 6, deletion("a"))) == {"a": 50}


@pytest.mark.parametrize(("version", "error"), [(1, 42), (2, 42), (3, 73), (5, 73), (6, 73)])
def test_a_deletion_that_the_cluster_has_switched_off_is_not_charged(play, version, error):
    """Each topic gets the cluster's error, for each reference to it; the next one is tried again."""
    on = play(Cluster(a=11))
    on.cluster.deletes = False
    names = ["a", "nowhere"]
    message = deletion(*names) if version == 6 else {"topicNames": names, "timeoutMs": 30_000}
    for _ in range(2):
        assert errors(on.call(20, version, message)) == {"a": error, "nowhere": error}
    assert (on.ports.requested, on.changes_seen()) == ([], [])

    on.cluster.deletes = True
    assert costs(on.mutate(20, version, message)) == {"a": 11}
    assert on.cluster.topics == {}


def test_whether_deletions_are_switched_off_is_asked_again_once_one_fails_for_it(play):
    on = play(Cluster(a=1, b=1, c=1))
    on.mutate(20, 6, deletion("a"))
    on.cluster.deletes = False
    on.mutate(20, 6, deletion("b"))
    on.exchange(20, 6, deletion("c"))
    assert on.ports.requested == []
    assert [errors(answer) for answer in on.answers()] == [{"a": 0}, {"b": 73}, {"c": 73}]


@pytest.mark.parametrize("version", [5, 6])
def test_a_topic_that_grows_while_its_deletion_is_decided_is_not_deleted(play, version):
    """It was charged for one partition, and has five hundred; the next try is charged for them."""
    on = play(Cluster(a=1, b=1))
    message = deletion("a", "b") if version == 6 else {"topicNames": ["a", "b"], "timeoutMs": 30_000}
    on.exchange(20, version, message)
    on.cluster.topics["a"] = (topic_id(1), 500)
    on.decide()
    (answer,) = on.answers()
    assert errors(answer) == {"a": 7, "b": 0}
    if version == 6:
        assert answer["responses"][1]["errorMessage"] == (
            "it has grown to 500 partitions since it was charged, so it was not deleted; retry"
        )
    assert set(on.cluster.topics) == {"a"}
    assert costs(on.mutate(20, version, message)) == {"a": 500}


@pytest.mark.parametrize(("message", "error"), [(deletion("a"), 3), (deletion(topic_id(1)), 100)], ids=["name", "id"])
def test_a_topic_that_is_made_again_while_its_deletion_is_decided_is_not_deleted(play, message, error):
    """The one that was charged does not exist any longer; the new one has another id."""
    on = play(Cluster(a=1))
    on.exchange(20, 6, message)
    del on.cluster.topics["a"]
    on.cluster.create("a", 500)
    on.decide()
    (answer,) = on.answers()
    assert list(errors(answer).values()) == [error]
    assert on.cluster.topics == {"a": (topic_id(2), 500)}


def test_a_topic_that_is_named_with_the_id_of_an_earlier_one_is_not_deleted(play):
    """The broker still shows the earlier one: no topic is deleted for the cost of another, however they are named."""
    on = play(Cluster(a=1))
    on.cluster.lagging["a"] = on.cluster.topics["a"]
    del on.cluster.topics["a"]
    on.cluster.create("a", 500)
    on.exchange(20, 6, deletion("a", topic_id(1)))
    on.end_pauses()
    (answer,) = on.answers()
    assert [topic["errorCode"] for topic in answer["responses"]] == [42, 42]
    assert (on.ports.requested, on.changes_seen()) == ([], [])


def test_a_request_of_very_many_topics_takes_no_time_that_grows_with_its_square(play):
    """Thousands of names, none of which exists, and one is given twice.

    Its processor time is compared with that of a quarter of the names: it is four times as long, or sixteen times.
    """

    def taken(count):
        names = [f"t{number}" for number in range(count - 2)]
        on = play(Cluster())
        begun = time.process_time()
        answer = on.call(20, 6, deletion(*names, "twice", "twice"))
        assert errors(answer) == {**dict.fromkeys(names, 3), "twice": 42}
        return time.process_time() - begun

    assert taken(12_000) < 8 * taken(3000)


def test_a_result_that_names_no_topic_is_passed_on(play):
    """A broker of the future may answer for the whole request."""
    on = play(Cluster(a=1))
    on.exchange(20, 6, deletion("a"))
    answer = on.cluster.answer
    failed = {"throttleTimeMs": 0, "responses": [{"name": None, "errorCode": 41, "errorMessage": None}]}
    on.cluster.answer = lambda key, version, message: failed if key == 20 else answer(key, version, message)
    on.decide()
    assert [[topic["errorCode"] for topic in answer["responses"]] for answer in on.answers()] == [[41]]
