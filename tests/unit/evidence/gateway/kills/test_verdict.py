"""The checks after a gateway was killed under load detect what must not be."""

import msgspec
import pytest

from quota.records.request import Operation
from tests.evidence.gateway.kills.clients import Tally
from tests.evidence.gateway.kills.verdict import Report, check_answers, check_charges, check_topic
from tests.support.factories import decided


def topic(name, partitions, count=None):
    decision = decided(partitions).topics[0]
    return msgspec.structs.replace(decision, name=name, partitions=partitions, count=count)


CREATE, GROW, DELETE = Operation.CREATE_TOPICS, Operation.CREATE_PARTITIONS, Operation.DELETE_TOPICS
ADMITTED = {(CREATE, "a"): [(topic("a", 2), False)], (GROW, "a"): [(topic("a", 3, 5), False)]}


@pytest.mark.parametrize(
    ("name", "partitions", "wrong"),
    [("a", 2, 0), ("a", 5, 0), ("a", 3, 1), ("a", 4, 1), ("b", 2, 2)],
)
def test_a_topic_that_was_not_admitted_is_detected(name, partitions, wrong):
    """Created with two partitions, and grown to five."""
    report = Report([Tally()])
    check_topic(report, name, partitions, ADMITTED)
    assert len(report.wrong) == wrong


@pytest.mark.parametrize(
    ("done", "name", "wrong"),
    [
        ("created", "a", 0),
        ("grown", "a", 0),
        ("grown", "c", 1),
        ("created", "b", 1),
        ("deleted", "a", 1),
        ("deleted", "c", 0),
        ("deleted", "d", 1),
    ],
)
def test_a_client_that_got_a_topic_undecided_is_detected(done, name, wrong):
    """a was created, and c and d deleted; but d is there."""
    admitted = ADMITTED | {(DELETE, deleted): [(topic(deleted, 1), False)] for deleted in ("c", "d")}
    tally = Tally(answers={(done, name): 0})
    report = Report([tally])
    check_answers(report, tally, admitted, {"a", "d"})
    assert len(report.wrong) == wrong


@pytest.mark.parametrize(
    ("operation", "count", "free", "wrong"),
    [
        (CREATE, None, [False, True], 0),
        (CREATE, None, [False, False], 2),
        (GROW, 5, [False, True], 0),
        (GROW, 5, [False, False], 2),
        (DELETE, None, [False, True], 0),
        (DELETE, None, [False, False], 2),
    ],
)
def test_a_second_charge_is_detected(operation, count, free, wrong):
    """Of two partitions, by a request that was repeated."""
    report = Report([Tally()])
    standing = {} if operation is DELETE else {"a": 2}
    created = {(CREATE, "a"): [(topic("a", 2), False)]} if operation is DELETE else {}
    check_charges(report, created | {(operation, "a"): [(topic("a", 2, count), is_free) for is_free in free]}, standing)
    assert (len(report.wrong), report.charged_minus_made) == (wrong, wrong)


@pytest.mark.parametrize(
    ("charged", "standing", "differences"),
    [
        ([(CREATE, 2), (GROW, 3)], {"a": 5}, []),
        ([(CREATE, 2), (GROW, 3)], {"a": 2}, [3]),
        ([(CREATE, 2), (GROW, 3)], {}, [5]),
        ([(CREATE, 2), (DELETE, 2)], {}, []),
        ([(CREATE, 2), (DELETE, 2)], {"a": 2}, [-2]),
        ([], {"a": 2, "b": 1}, [-2, -1]),
    ],
)
def test_a_charge_for_what_does_not_exist_and_a_topic_without_a_charge_are_detected(charged, standing, differences):
    report = Report([Tally()])
    admitted = {(operation, "a"): [(topic("a", partitions), False)] for operation, partitions in charged}
    check_charges(report, admitted, standing)
    assert report.wrong == [
        f"{partitions} partitions of {name} were charged and do not exist"
        for name, partitions in zip("ab", differences, strict=False)
    ]
    assert report.charged_minus_made == sum(map(abs, differences))
