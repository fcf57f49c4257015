"""Mutation requests of logged ones: their users, and their costs."""

from zoneinfo import ZoneInfo

import pytest

from quota.observation.layouts import LogTime
from quota.observation.observer import Observer, TopicSizes
from quota.observation.request_log import read_line
from quota.records.request import Observed, Operation
from quota.settings.principals import PrincipalRules
from tests.support.request_log import created, deleted, grown, line

AT = "2026-11-22 17:39:55,315"
RECEIVED = 1_795_369_195_265


def observer(**known):
    return Observer(TopicSizes(known), PrincipalRules().user)


def observe(by, line):
    return by.observe(read_line(line, LogTime(ZoneInfo("UTC"))))


def test_a_request_has_the_costs_and_the_clusters_answer():
    request = observe(observer(), created(AT, ("a", 3), ("b", 4), errors=[0, 89], throttle_ms=700))
    assert (request.user, request.client_id, request.operation) == ("alice", "app", Operation.CREATE_TOPICS)
    assert [(topic.name, topic.partitions) for topic in request.topics] == [("a", 3), ("b", 4)]
    assert request.observed == Observed(RECEIVED, [0, 89], 700, 50, [])
    assert not request.apply


def test_topics_that_failed_for_other_reasons_cost_nothing_and_are_omitted():
    by = observer()
    request = observe(by, created(AT, ("a", 3), ("b", 4), ("c", 5), errors=[36, 0, 37]))
    assert [topic.name for topic in request.topics] == ["b"]
    assert observe(by, created(AT, ("a", 3), errors=[36])) is None
    assert dict(by.counts.failed_topics) == {36: 2, 37: 1}
    assert by.counts.requests[Operation.CREATE_TOPICS] == 1


def test_a_cost_missing_from_the_log_is_assumed_and_marked():
    by = observer(known=8)
    request = observe(by, deleted(AT, "known", "unknown"))
    assert [topic.partitions for topic in request.topics] == [8, 1]
    assert request.observed.assumed == [1]
    assert by.counts.assumed_topics[Operation.DELETE_TOPICS] == 1


def test_requests_have_unique_ids():
    by = observer(a=1)
    lines = [grown(AT, "a", 2), grown(AT, "a", 3, correlation_id=6), grown("2026-11-22 17:39:56,315", "a", 4)]
    assert len({observe(by, logged).request_id for logged in lines}) == 3


def test_a_validation_counts_as_a_request_and_not_as_mutations():
    by = observer()
    request = observe(by, created(AT, ("a", 3), validate_only=True, client_id=None))
    assert (request.validate_only, request.client_id) == (True, "")
    assert (by.counts.validate_only, by.counts.mutations[Operation.CREATE_TOPICS]) == (1, 0)


def costs(sizes, *lines):
    requests = [read_line(logged, LogTime(ZoneInfo("UTC"))) for logged in lines]
    return [[sizes.cost(request, topic) for topic in request.topics] for request in requests]


def test_creations_growths_and_deletions_cost_their_partitions():
    log = [created(AT, ("a", 3)), grown(AT, "a", 10), deleted(AT, "a"), deleted(AT, "a")]
    assert costs(TopicSizes(), *log) == [[3], [7], [10], [None]]


def test_topics_from_before_the_log_are_known_only_from_a_snapshot():
    log = [grown(AT, "old", 10), deleted(AT, "old")]
    assert costs(TopicSizes({"old": 4}), *log) == [[6], [10]]
    assert costs(TopicSizes(), *log) == [[None], [10]]


def test_a_snapshot_from_after_a_growth_does_not_make_it_free():
    assert costs(TopicSizes({"a": 10}), grown(AT, "a", 10)) == [[None]]


def test_rejected_and_validated_mutations_change_nothing():
    log = [
        created(AT, ("a", 3)),
        grown(AT, "a", 10, error=89),
        deleted(AT, "a", error=89),
        created(AT, ("b", 5), validate_only=True),
        deleted(AT, "b"),
        deleted(AT, "a"),
    ]
    assert costs(TopicSizes(), *log) == [[3], [7], [3], [5], [None], [3]]


def test_a_mutation_that_timed_out_was_carried_out():
    assert costs(TopicSizes(), created(AT, ("a", 3), errors=[7]), deleted(AT, "a")) == [[3], [3]]


@pytest.mark.parametrize(("default", "cost"), [(None, None), (12, 12)])
def test_the_default_number_of_partitions_is_that_of_the_response_or_the_setting(default, cost):
    creation = {"topics": [{"name": "a", "numPartitions": -1}]}
    silent = line(AT, 19, creation, {"topics": [{"name": "a", "errorCode": 0}]}, api_version=4)
    assert costs(TopicSizes(default_partitions=default), silent) == [[cost]]
    telling = line(AT, 19, creation, {"topics": [{"name": "a", "errorCode": 0, "numPartitions": 6}]})
    assert costs(TopicSizes(default_partitions=default), telling) == [[6]]


def test_a_recreated_topic_has_its_new_size_even_if_unknown():
    creation = {"topics": [{"name": "a", "numPartitions": -1}]}
    silent = line(AT, 19, creation, {"topics": [{"name": "a", "errorCode": 0}]}, api_version=4)
    assert costs(TopicSizes({"a": 5}), deleted(AT, "a"), silent, deleted(AT, "a")) == [[5], [None], [None]]


def test_a_deletion_by_id_has_the_name_of_its_creation():
    sizes = TopicSizes()
    costs(sizes, created(AT, ("a", 3)))
    answered = [{"name": None, "topicId": "id-of-a", "errorCode": 0}]
    by_id = line(AT, 20, {"topics": [{"name": None, "topicId": "id-of-a"}]}, {"responses": answered})
    (topic,) = read_line(by_id, LogTime(ZoneInfo("UTC"))).topics
    assert sizes.name(topic) == "a"
    assert costs(sizes, by_id) == [[3]]
