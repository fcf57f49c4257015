"""Tasks of an applier: how they are grouped into calls, topics before and after them, and their charged cost."""

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quota.admission.decide import decide
from quota.algorithms.token_bucket import TokenBucket
from quota.kafka.target.task import MAX_CALL_MUTATIONS, Task, admitted_topics, cost_error, group_into_calls
from quota.records.quota import Window
from quota.records.request import Operation, TopicMutation
from tests.support.factories import resolved

CREATE, GROW, DELETE = Operation.CREATE_TOPICS, Operation.CREATE_PARTITIONS, Operation.DELETE_TOPICS


def task(operation=CREATE, name="a", partitions=1, *, validate_only=False, **details):
    """One topic, whose mutation was admitted for so many partitions."""
    return Task(operation, TopicMutation(name=name, partitions=partitions, **details), validate_only)


def creations(*partitions):
    """Topics to create, one for each number of partitions."""
    return [task(name=f"topic-{number}", partitions=count) for number, count in enumerate(partitions)]


def costs(calls):
    return [[each.topic.partitions for each in call] for call in calls]


def names(calls):
    return [[each.name for each in call] for call in calls]


def test_without_tasks_there_is_no_call():
    assert list(group_into_calls([])) == []


def test_tasks_of_one_kind_go_together_in_their_order():
    tasks = [task(name=name) for name in "cab"]
    assert list(group_into_calls(tasks)) == [tasks]


def test_another_operation_begins_another_call_and_the_order_is_kept():
    """A topic that is deleted between two creations may be created again by the second."""
    tasks = [task(CREATE, "a"), task(CREATE, "b"), task(DELETE, "c"), task(CREATE, "d")]
    assert names(group_into_calls(tasks)) == [["a", "b"], ["c"], ["d"]]


def test_validations_and_changes_are_separate_calls():
    tasks = [task(name="a"), task(name="b", validate_only=True), task(name="c", validate_only=True), task(name="d")]
    assert names(group_into_calls(tasks)) == [["a"], ["b", "c"], ["d"]]


def test_a_topic_is_not_twice_in_a_call():
    assert names(group_into_calls([task(name=name) for name in "abacb"])) == [["a", "b"], ["a", "c", "b"]]


def test_a_name_may_come_again_in_a_later_call():
    assert names(group_into_calls([task(name=name) for name in "aaa"])) == [["a"], ["a"], ["a"]]


def test_a_call_has_a_thousand_mutations_and_no_more():
    assert MAX_CALL_MUTATIONS == 1000
    assert costs(group_into_calls(creations(600, 400))) == [[600, 400]]
    assert costs(group_into_calls(creations(600, 401))) == [[600], [401]]


def test_the_mutations_of_each_call_are_counted_separately():
    """600 + 500 are too many, 500 + 500 are not, 1 is one too many."""
    assert costs(group_into_calls(creations(600, 500, 500, 1))) == [[600], [500, 500], [1]]


@pytest.mark.parametrize("huge", [1000, 5000])
def test_one_huge_topic_is_a_separate_call(huge):
    assert costs(group_into_calls(creations(1, huge, 1, 2))) == [[1], [huge], [1, 2]]


def test_the_first_topic_may_be_huge():
    assert costs(group_into_calls(creations(5000, 5000))) == [[5000], [5000]]


def test_tasks_without_a_cost_are_not_in_the_call_of_a_huge_topic():
    """Its answer would be waited for as long as that of the huge one."""
    assert costs(group_into_calls(creations(5000, 0))) == [[5000], [0]]


some_tasks = st.lists(
    st.builds(
        task,
        st.sampled_from(Operation),
        st.sampled_from("abcd"),
        st.sampled_from([0, 1, 400, 1000, 3000]),
        validate_only=st.booleans(),
    )
)


@given(some_tasks)
def test_calls_hold_all_tasks_in_their_order_and_keep_to_their_limits(tasks):
    calls = list(group_into_calls(tasks))
    assert [each for call in calls for each in call] == tasks
    for call in calls:
        assert len({(each.operation, each.validate_only) for each in call}) == 1
        assert len({each.name for each in call}) == len(call)
        assert len(call) == 1 or sum(each.topic.partitions for each in call) <= 1000


@given(some_tasks)
def test_no_call_could_have_taken_the_next_task_too(tasks):
    calls = list(group_into_calls(tasks))
    for call, (after, *_) in pairwise(calls):
        assert (
            (after.operation, after.validate_only) != (call[0].operation, call[0].validate_only)
            or after.name in {each.name for each in call}
            or sum(each.topic.partitions for each in (*call, after)) > 1000
        )


@pytest.mark.parametrize("current", [0, 1, 100])
def test_a_creation_never_costs_more_than_it_was_admitted_for(current):
    """The cluster rejects the creation of an existing topic."""
    assert cost_error(task(CREATE, partitions=1), current) is None


@pytest.mark.parametrize(("current", "cost"), [(0, 6), (3, 3)])
def test_growing_costs_the_partitions_added_to_the_current_ones(current, cost):
    """To 6, and 2 were charged: from 4 that is enough."""
    assert cost_error(task(GROW, partitions=2, count=6), current) == (
        f"the topic has {current} partitions: this costs {cost} mutations, and 2 were charged"
    )


@pytest.mark.parametrize("current", [4, 5, 6, 9])
def test_growing_at_no_more_than_the_charged_cost_is_allowed(current):
    assert cost_error(task(GROW, partitions=2, count=6), current) is None


@pytest.mark.parametrize("details", [{}, {"replication_factor": 1}])
def test_growing_without_a_count_is_not_allowed(details):
    reason = cost_error(task(GROW, partitions=100, **details), 1)
    assert reason == "the request has no count, so the new number of partitions is unknown"


def test_a_deletion_costs_the_current_partitions_of_the_topic():
    assert cost_error(task(DELETE, partitions=3), 3) is None
    assert cost_error(task(DELETE, partitions=3), 2) is None
    assert cost_error(task(DELETE, partitions=3), 4) == (
        "the topic has 4 partitions: this costs 4 mutations, and 3 were charged"
    )


def test_a_deletion_costs_all_partitions_regardless_of_the_count_in_its_request():
    assert cost_error(task(DELETE, partitions=3, count=4), 4) is not None


def test_a_created_topic_has_the_requested_partitions():
    assert task(CREATE, partitions=3).partitions_after == 3
    assert task(CREATE, partitions=3, count=9).partitions_after == 3


def test_a_grown_topic_has_the_total_count_and_not_the_added_one():
    assert task(GROW, partitions=2, count=6).partitions_after == 6


def test_without_a_count_the_new_size_of_a_topic_is_unknown():
    assert task(GROW, partitions=2).partitions_after is None


def test_a_deleted_topic_has_no_partitions():
    assert task(DELETE, partitions=3).partitions_after is None
    assert task(DELETE, partitions=3, count=3).partitions_after is None


@pytest.mark.parametrize(
    ("mutation", "current", "done"),
    [
        (task(CREATE, partitions=3), 3, True),
        (task(CREATE, partitions=3), 2, False),
        (task(CREATE, partitions=3), 4, False),
        (task(CREATE, partitions=3), None, False),
        (task(GROW, partitions=2, count=6), 6, True),
        (task(GROW, partitions=2, count=6), 4, False),
        (task(GROW, partitions=2, count=6), 2, False),
        (task(GROW, partitions=2, count=6), None, False),
        (task(GROW, partitions=2), None, False),  # a missing topic was not grown
        (task(GROW, partitions=2), 2, False),
        (task(DELETE, partitions=3), None, True),
        (task(DELETE, partitions=3), 3, False),
        (task(DELETE, partitions=3, count=3), 3, False),
    ],
)
def test_a_task_is_done_if_the_topic_has_the_intended_state(mutation, current, done):
    assert mutation.is_done(current) is done


def test_a_task_is_the_same_whether_or_not_it_may_be_done_already():
    assert replace(task(CREATE, partitions=3), maybe_done=True).is_done(3)


def test_the_topics_of_a_decision_without_an_error_may_be_carried_out():
    """Rate 1, burst 11: the second topic goes into debt, the third is refused."""
    _, [decision] = decide(None, [resolved(5, 20, 1, rate=1.0)], TokenBucket(Window()))
    assert [topic.name for topic in admitted_topics(decision.topics)] == ["topic-0", "topic-1"]


def test_nothing_of_a_refused_decision_may_be_carried_out():
    _, decisions = decide(None, [resolved(12, rate=1.0), resolved(1, 2, rate=1.0)], TokenBucket(Window()))
    assert [[topic.name for topic in admitted_topics(each.topics)] for each in decisions] == [["topic-0"], []]
