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
    ("operation", "free", "wrong"),
    [(DELETE, [False], 0), (DELETE, [False, True], 0), (DELETE, [False, False], 2), (CREATE, [False, False], 2)],
)
def test_a_second_charge_is_detected(operation, free, wrong):
    report = Report([Tally()])
    check_charges(report, {(operation, "a"): [(topic("a", 2), is_free) for is_free in free]}, {(operation, "a")})
    assert (len(report.wrong), report.charged_minus_made) == (wrong, wrong)


def test_a_charge_for_what_was_not_made_is_detected():
    """a was created with two partitions, and its growth by three was not done."""
    report = Report([Tally()])
    check_charges(report, ADMITTED, {(CREATE, "a")})
    assert report.wrong == ["3 mutations were charged for what was not made"]
