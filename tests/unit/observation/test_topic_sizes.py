"""Costs of mutations, derived from a log."""

from zoneinfo import ZoneInfo

import pytest

from quota.observation.log_time import LogTime
from quota.observation.observer import TopicSizes
from quota.observation.request_log import read_line
from tests.support.request_log import created, deleted, grown, line

AT = "2026-11-22 17:39:55,315"


def costs(sizes, *lines):
    requests = [read_line(each, LogTime(ZoneInfo("UTC"))) for each in lines]
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


def test_refused_and_validated_mutations_change_nothing():
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
