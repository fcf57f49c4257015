"""Tasks of an applier: how they are grouped into calls, topics before and after them, and their charged cost."""

from dataclasses import replace

import pytest

from quota.kafka.tasks import Task, cost_error, group_into_calls, with_later_growth
from quota.records.request import Operation, TopicMutation

CREATE, GROW, DELETE = Operation.CREATE_TOPICS, Operation.CREATE_PARTITIONS, Operation.DELETE_TOPICS


def task(operation=CREATE, name="a", partitions=1, *, validate_only=False, **details):
    """One topic, whose mutation was admitted for so many partitions."""
    return Task(operation, TopicMutation(name=name, partitions=partitions, **details), validate_only)


@pytest.mark.parametrize(
    ("tasks", "calls"),
    [
        pytest.param([], [], id="none"),
        pytest.param([(CREATE, "c"), (CREATE, "a"), (CREATE, "b")], ["cab"], id="one kind, in its order"),
        pytest.param(
            [(CREATE, "a"), (CREATE, "b"), (DELETE, "c"), (CREATE, "d")], ["ab", "c", "d"], id="another operation"
        ),
        pytest.param([(CREATE, "a"), (CREATE, "b", 1, True), (CREATE, "c")], ["a", "b", "c"], id="a validation"),
        pytest.param([(CREATE, name) for name in "abacb"], ["ab", "acb"], id="a topic twice"),
        pytest.param([(CREATE, "a", 600), (CREATE, "b", 400)], ["ab"], id="a thousand mutations"),
        pytest.param([(CREATE, "a", 600), (CREATE, "b", 401)], ["a", "b"], id="more than a thousand"),
        pytest.param(
            [(CREATE, "a", 600), (CREATE, "b", 500), (CREATE, "c", 500), (CREATE, "d")],
            ["a", "bc", "d"],
            id="each call counts its own",
        ),
        pytest.param(
            [(CREATE, "a"), (CREATE, "b", 1000), (CREATE, "c"), (CREATE, "d", 2)], ["a", "b", "cd"], id="a large topic"
        ),
        pytest.param([(CREATE, "a", 5000), (CREATE, "b", 5000)], ["a", "b"], id="larger than a call"),
        pytest.param([(CREATE, "a", 5000), (CREATE, "b", 0)], ["a", "b"], id="without a cost, not with a huge one"),
    ],
)
def test_tasks_are_grouped_into_calls(tasks, calls):
    """Their order is kept: a topic that is deleted between two creations may be created again by the second."""
    grouped = group_into_calls([task(*fields[:3], validate_only=fields[3:] == (True,)) for fields in tasks])
    assert ["".join(member.name for member in call) for call in grouped] == calls


def test_a_call_has_at_most_500_topics():
    calls = group_into_calls([task(name=f"t{number}", partitions=0) for number in range(501)])
    assert [len(call) for call in calls] == [500, 1]


TOO_MANY = "the topic has {} partitions: this costs {} mutations, and {} were charged"
NO_COUNT = "the request has no count, so the new number of partitions is unknown"


@pytest.mark.parametrize(
    ("mutation", "current", "error"),
    [
        (task(CREATE, partitions=1), 100, None),  # the cluster rejects the creation of an existing topic
        (task(GROW, partitions=2, count=6), 0, TOO_MANY.format(0, 6, 2)),
        (task(GROW, partitions=2, count=6), 3, TOO_MANY.format(3, 3, 2)),
        (task(GROW, partitions=2, count=6), 4, None),
        (task(GROW, partitions=2, count=6), 9, None),
        (task(GROW, partitions=100), 1, NO_COUNT),
        (task(DELETE, partitions=3), 3, None),
        (task(DELETE, partitions=3), 4, TOO_MANY.format(4, 4, 3)),
        (task(DELETE, partitions=3, count=4), 4, TOO_MANY.format(4, 4, 3)),
    ],
)
def test_a_task_that_costs_more_than_was_charged_is_not_allowed(mutation, current, error):
    """Growing costs the partitions added to the current ones, and a deletion all of them, whatever its count."""
    assert cost_error(mutation, current) == error


@pytest.mark.parametrize(
    ("mutation", "current", "done"),
    [
        (task(CREATE, partitions=3), 3, True),
        (task(CREATE, partitions=3, count=9), 3, True),
        (task(CREATE, partitions=3), 4, False),
        (task(CREATE, partitions=3), None, False),
        (task(GROW, partitions=2, count=6), 6, True),
        (task(GROW, partitions=2, count=6), 4, False),
        (task(GROW, partitions=2, count=6), None, False),
        (task(GROW, partitions=2), None, False),  # a missing topic was not grown
        (task(DELETE, partitions=3), None, True),
        (task(DELETE, partitions=3), 3, False),
        (task(DELETE, partitions=3, count=3), 3, False),
    ],
)
def test_a_task_is_done_if_the_topic_has_the_intended_state(mutation, current, done):
    assert mutation.is_done(current) is done
    assert replace(mutation, maybe_done=True).is_done(current) is done


@pytest.mark.parametrize(
    ("operations", "maybe", "done"),
    [
        ([(CREATE, 2), (GROW, 5)], True, [2, 5]),
        ([(CREATE, 2), (GROW, 5), (GROW, 6)], True, [2, 5, 6]),
        ([(CREATE, 2), (GROW, 5)], False, [2]),
        ([(CREATE, 2), (DELETE, 2), (CREATE, 3), (GROW, 5)], True, [2]),
        ([(GROW, 9), (GROW, 6)], True, [9]),
        ([(DELETE, 2), (GROW, 6)], True, [None]),
        ([(CREATE, 2), (GROW, 5, True)], True, [2]),
        ([(CREATE, 2), (DELETE, 2, True), (GROW, 5)], True, [2, 5]),
    ],
)
def test_a_task_that_may_be_done_is_done_if_the_topic_has_grown_since(operations, maybe, done):
    """Of a batch that a killed applier began, any tasks may have been carried out.

    Neither the growth of another topic nor one that is only validated counts.
    """
    tasks = [
        task(operation, partitions=count, validate_only=bool(validated), count=count if operation is GROW else None)
        for operation, count, *validated in operations
    ]
    other = task(GROW, "b", count=8)
    first, *_ = with_later_growth(replace(each, maybe_done=maybe) for each in [*tasks, other])
    assert [count for count in (None, *range(1, 10)) if first.is_done(count)] == done
