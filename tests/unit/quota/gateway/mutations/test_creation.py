"""CreateTopics through a channel: validated first, then decided, and only admitted topics are forwarded."""

import pytest

from tests.support.wire.requests import creation, topic
from tests.unit.quota.gateway.cluster import Cluster


def errors(answer):
    return {result["name"]: result["errorCode"] for result in answer["topics"]}


def costs(request):
    return {mutation.name: mutation.partitions for mutation in request.topics}


def test_topics_are_created_once_they_are_admitted(play):
    """The cluster validates; the decision is requested with the partitions; then the request is forwarded unchanged."""
    on = play()
    on.exchange(19, 7, creation("a", topic("b", 5)))
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
    assert {result["name"]: result["errorMessage"] for result in answer["topics"]} == {
        "there": "Topic 'there' already exists.",
        "new": None,
        "secret": "Authorization failed.",
        "twice": "Duplicate topic name.",
    }
    ((_, _, went_on),) = on.changes_seen()
    assert [result["name"] for result in went_on["topics"]] == ["new"]


def test_rejected_topics_get_error_89_and_the_others_are_created(play):
    """The throttle time is the decision's."""
    on = play()
    on.mutate(19, 6, creation("a", "b", "c"), rejected={"b", "c"}, throttle_ms=2500)

    (answer,) = on.answers()
    assert answer["throttleTimeMs"] == 2500
    assert errors(answer) == {"a": 0, "b": 89, "c": 89}
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


def test_a_hidden_default_has_the_cost_in_the_settings(play, caplog):
    """Clients without permission to describe a topic's configs do not get its number of partitions."""
    on = play(assumed_partitions=6)
    for name in ("hidden", "hidden-2"):
        assert costs(on.mutate(19, 7, creation(topic(name, -1)))) == {name: 6}
    (warning,) = caplog.messages
    assert "gateway.default_partitions=6 is charged until another client learns it" in warning


@pytest.mark.parametrize("version", [4, 7])
@pytest.mark.parametrize("as_if", ["grown", "made again"])
def test_no_client_teaches_the_gateway_a_default(play, version, as_if):
    """What one has is no default: it has grown meanwhile, or one of its name had more and was deleted elsewhere."""
    on = play()
    if as_if == "made again":
        on.mutate(19, version, creation(topic("hidden", 1000)))
        del on.cluster.topics["hidden"]
    on.exchange(19, version, creation(topic("hidden", -1)))
    on.cluster.default_partitions = 1000 if as_if == "grown" else 4
    on.decide()
    assert costs(on.mutate(19, version, creation(topic("hidden-2", -1)))) == {"hidden-2": 1}


@pytest.mark.parametrize("version", [4, 7])
def test_a_default_that_one_client_is_told_is_the_cost_for_those_that_are_not(play, version, caplog):
    on = play(assumed_partitions=1)
    on.mutate(19, version, creation(topic("a", -1)))
    (warning,) = caplog.messages
    assert warning == (
        "the brokers create topics with 4 partitions by default (num.partitions), and gateway.default_partitions is 1: "
        "clients that may not describe configs were charged for that; from now on for 4"
    )
    on.cluster.default_partitions = 8  # the brokers were restarted with another one
    assert costs(on.mutate(19, version, creation(topic("hidden", -1)))) == {"hidden": 4}
    assert costs(on.mutate(19, version, creation(topic("hidden-2", -1)))) == {"hidden-2": 4}
    on.mutate(19, version, creation(topic("b", -1)))
    assert costs(on.mutate(19, version, creation(topic("hidden-3", -1)))) == {"hidden-3": 8}


def others(on, number, **options):
    """Return further clients of the same cluster and gateway."""
    return [type(on)(on.protocol, on.cluster, context=on.context, **options) for _ in range(number)]


@pytest.mark.parametrize("end", ["rejected", "undecided", "gone"])
def test_the_next_one_tries_to_create_a_topic_if_the_first_one_fails(play, end):
    first = play()
    second, third = others(first, 2)
    for on in (first, second, third):
        on.exchange(19, 7, creation("a", "b"))
    match end:
        case "rejected":
            first.decide(rejected={"a", "b"}, throttle_ms=5)
        case "undecided":
            first.no_decision()
        case _:
            first.channel.close()
    third.end_pause()
    assert third.ports.requested == []
    second.end_pause()
    assert costs(second.decide()) == {"a": 3, "b": 3}
    third.end_pauses()
    assert [errors(answer) for on in (second, third) for answer in on.answers()] == [
        {"a": 0, "b": 0},
        {"a": 36, "b": 36},
    ]


def test_topics_of_other_names_and_requests_that_fail_wait_for_nobody(play):
    first = play(Cluster(there=1))
    first.exchange(19, 7, creation("a", "b"))
    second, third = others(first, 2)
    assert costs(second.mutate(19, 7, creation("c", "there"))) == {"c": 3}
    third.cluster.forbidden.add("a")
    assert errors(third.call(19, 7, creation("a", "there"))) == {"a": 29, "there": 36}


def test_who_waits_for_another_longer_than_its_own_timeout_allows_goes_on_to_be_answered(play):
    """Its request for a decision has no time left, and is not written."""
    first = play()
    (second,) = others(first, 1)
    first.exchange(19, 7, creation("a"))
    second.exchange(19, 7, creation("a", timeoutMs=100))
    assert sum(second.end_pauses()) == 80
    assert [ask.timeout_ms for ask in second.ports.requested] == [0]


def test_a_validation_that_was_overtaken_by_the_creation_is_repeated(play):
    """The controller validated it before the other one was created, and its answer came after that one's."""
    first = play()
    (second,) = others(first, 1)
    first.exchange(19, 7, creation("a"))
    second.send(19, 7, creation("a"))
    validated = second.next_answer()
    first.decide()
    second.channel.from_broker(validated)
    second.serve()
    assert [errors(answer) for answer in second.answers()] == [{"a": 36}]
    assert second.ports.requested == []


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
    on.exchange(19, 7, creation("a"))
    failing = {"topics": [{"name": "a", "errorCode": 12345, "errorMessage": "of the future", "_tags": [(8, b"t")]}]}
    on.cluster.answer = lambda *_: {"throttleTimeMs": 0, **failing}
    on.decide()

    (answer,) = on.answers()
    (result,) = answer["topics"]
    assert (result["errorCode"], result["errorMessage"], result["_tags"]) == (12345, "of the future", [(8, b"t")])


def test_the_brokers_own_throttle_time_is_reported_if_it_is_longer(play):
    """It mutes the client itself, so the gateway mutes it for the decision's time alone."""
    on = play()
    on.cluster.throttle_ms = 900
    on.mutate(19, 7, creation("a"))

    (answer,) = on.answers()
    assert answer["throttleTimeMs"] == 900
    assert on.call(3, 12, {"topics": []})["throttleTimeMs"] == 900
