"""CreateTopics through a channel: validated first, then decided, and only admitted topics are forwarded."""

import pytest

from tests.support.wire.requests import creation, topic
from tests.unit.gateway.cluster import Cluster


def errors(answer):
    return {each["name"]: each["errorCode"] for each in answer["topics"]}


def costs(request):
    return {each.name: each.partitions for each in request.topics}


def test_topics_are_created_once_they_are_admitted(play):
    """The cluster validates; the decision is requested with the partitions; then the request is forwarded unchanged."""
    on = play()
    on.send(19, 7, creation("a", topic("b", 5)))
    on.serve()
    assert on.answers() == []
    assert on.cluster.topics == {}

    request = on.decide()

    assert costs(request) == {"a": 3, "b": 5}
    assert (request.user, request.client_id, request.api_version) == ("ANONYMOUS", "app", 7)
    (answer,) = on.answers()
    assert errors(answer) == {"a": 0, "b": 0}
    assert [(key, version, message["validateOnly"]) for key, version, message in on.seen] == [
        (19, 7, True),
        (19, 7, False),
    ]
    assert on.seen[1][2] == creation("a", topic("b", 5))


def test_topics_that_the_cluster_would_reject_are_answered_without_a_decision(play):
    """They have the cluster's own errors and messages; the request for a decision and the forwarded one omit them."""
    on = play(Cluster(there=1))
    on.cluster.forbidden.add("secret")
    request = on.mutate(19, 7, creation("there", "new", "secret", "twice", "twice"))

    assert costs(request) == {"new": 3}
    (answer,) = on.answers()
    assert errors(answer) == {"there": 36, "new": 0, "secret": 29, "twice": 42}
    assert {each["name"]: each["errorMessage"] for each in answer["topics"]} == {
        "there": "Topic 'there' already exists.",
        "new": None,
        "secret": "Authorization failed.",
        "twice": "Duplicate topic name.",
    }
    ((_, _, went_on),) = on.changes_seen()
    assert [each["name"] for each in went_on["topics"]] == ["new"]


def test_refused_topics_get_error_89_without_a_text_and_the_others_are_created(play):
    """The message is null as in Kafka; the throttle time is the decision's."""
    on = play()
    on.mutate(19, 6, creation("a", "b", "c"), refused={"b", "c"}, throttle_ms=2500)

    (answer,) = on.answers()
    assert answer["throttleTimeMs"] == 2500
    assert errors(answer) == {"a": 0, "b": 89, "c": 89}
    assert [each["errorMessage"] for each in answer["topics"]] == [None, None, None]
    assert set(on.cluster.topics) == {"a"}


@pytest.mark.parametrize("version", [2, 3, 4, 5])
def test_an_old_version_is_admitted_and_muted(play, version):
    """It does not know error 89: its topics are created, it gets the throttle time, and its next request waits."""
    on = play()
    request = on.mutate(19, version, creation("a"), throttle_ms=700)
    (answer,) = on.answers()
    assert request.api_version == version
    assert (errors(answer), answer["throttleTimeMs"]) == ({"a": 0}, 700)

    on.send(3, 12, {"topics": [], "allowAutoTopicCreation": False})
    on.pass_time(699)
    assert on.answers() == []
    on.pass_time(1)
    assert len(on.answers()) == 1


def test_a_validate_only_request_is_relayed_unchanged(play):
    on = play()
    answer = on.call(19, 7, creation("a", validateOnly=True))

    assert errors(answer) == {"a": 0}
    assert on.ports.requested == []
    assert on.keys_seen() == [19]
    assert on.cluster.topics == {}


def test_an_empty_request_is_relayed(play):
    on = play()
    assert on.call(19, 7, creation())["topics"] == []
    assert on.ports.requested == []


@pytest.mark.parametrize("version", [2, 4, 5, 7])
def test_a_default_number_of_partitions_has_the_clusters_default_cost(play, version):
    """The validation has at least version 5, whose response has the number; the forwarded one keeps the client's."""
    on = play()
    request = on.mutate(19, version, creation(topic("a", -1), topic("b", 2)))

    assert costs(request) == {"a": 4, "b": 2}
    assert [seen for _, seen, _ in on.seen] == [max(version, 5), version]


def test_a_hidden_default_has_the_cost_in_the_settings(play):
    """Clients without permission to describe a topic's configs do not get its number of partitions."""
    on = play(default_partitions=6)
    assert costs(on.mutate(19, 7, creation(topic("hidden", -1)))) == {"hidden": 6}


def test_partitions_with_assigned_replicas_cost_their_number(play):
    """The field for the number of partitions, which is -1 then, does not count."""
    assigned = [{"partitionIndex": number, "brokerIds": [1]} for number in range(7)]
    on = play()
    assert costs(on.mutate(19, 7, creation(topic("a", -1, replicationFactor=-1, assignments=assigned)))) == {"a": 7}


def test_the_forwarded_request_keeps_configs_unknown_tags_and_the_remaining_timeout(play):
    """The decision took 1,200 ms of 30,000."""
    config = {"name": "retention.ms", "value": "5", "_tags": [(7, b"x")]}
    requested = topic("a", configs=[config, {"name": "cleanup.policy", "value": None}], _tags=[(3, b"yz")])
    on = play()
    on.mutate(19, 7, creation(requested, _tags=[(9, b"q")]), waited_ms=1200)

    ((_, _, went_on),) = on.changes_seen()
    assert went_on == creation(requested, timeoutMs=28_800, _tags=[(9, b"q")])


def test_an_error_of_the_broker_after_the_decision_is_forwarded(play):
    on = play()
    on.send(19, 7, creation("a"))
    on.serve()
    failing = {"topics": [{"name": "a", "errorCode": 12345, "errorMessage": "of the future", "_tags": [(8, b"t")]}]}
    on.cluster.answer = lambda *_: {"throttleTimeMs": 0, **failing}
    on.decide()

    (answer,) = on.answers()
    (found,) = answer["topics"]
    assert (found["errorCode"], found["errorMessage"], found["_tags"]) == (12345, "of the future", [(8, b"t")])


def test_the_brokers_own_throttle_time_is_reported_if_it_is_longer(play):
    """It mutes the client itself, so the gateway mutes it for the decision's time alone."""
    on = play()
    on.cluster.throttle_ms = 900
    on.mutate(19, 7, creation("a"))

    (answer,) = on.answers()
    assert answer["throttleTimeMs"] == 900
    assert on.call(3, 12, {"topics": []})["throttleTimeMs"] == 900
