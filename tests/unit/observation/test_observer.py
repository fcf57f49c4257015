"""Mutation requests of logged ones."""

from zoneinfo import ZoneInfo

from quota.observation.log_time import LogTime
from quota.observation.observer import Observer, TopicSizes
from quota.observation.principals import PrincipalRules
from quota.observation.request_log import read_line
from quota.records.request import Observed, Operation
from tests.support.request_log import created, deleted, grown

AT = "2026-11-22 17:39:55,315"
RECEIVED = 1_795_369_195_265


def observer(**known):
    return Observer(TopicSizes(known), PrincipalRules())


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
    assert len({observe(by, each).request_id for each in lines}) == 3


def test_a_validation_counts_as_a_request_and_not_as_mutations():
    by = observer()
    request = observe(by, created(AT, ("a", 3), validate_only=True, client_id=None))
    assert (request.validate_only, request.client_id) == (True, "")
    assert (by.counts.validate_only, by.counts.mutations[Operation.CREATE_TOPICS]) == (1, 0)
