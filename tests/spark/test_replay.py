"""Decisions are the same, however the stream is cut into batches."""

from fractions import Fraction

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from quota.algorithms.deduplication import Deduplication
from quota.records.quota import Window
from tests.support.reference.log import ABSENT, Change, Entry, Log
from tests.support.reference.model import Reference
from tests.support.replay.chance import START, cases, shared_cases
from tests.support.replay.engine import SparkEngine
from tests.support.replay.plain import PlainEngine
from tests.support.replay.properties import check_any_partitions, check_one_partition

# Hypothesis does not make what fails smaller: each try takes seconds.
SHORT = settings(phases=[Phase.generate], suppress_health_check=list(HealthCheck), database=None)
RECORDS = 40


@pytest.fixture(scope="module")
def engine(spark):
    return SparkEngine(spark)


def test_any_batches_give_the_same_decisions_as_the_reference(engine):
    """One partition a bucket: uncut and cut at random, restarted, crashed, on one to four state partitions."""

    @settings(SHORT, max_examples=3)
    @given(cases(RECORDS, least_cuts=1))
    def check(case):
        check_one_partition(engine, *case)

    check()


def test_several_partitions_keep_their_order_within_a_batch(engine):
    """Each batch is in the order of timestamp, partition and offset: equal cuts give equal decisions."""

    @settings(SHORT, max_examples=2)
    @given(shared_cases(RECORDS, least_cuts=1))
    def check(case):
        check_any_partitions(engine, *case)

    check()


def test_any_batches_give_the_same_decisions_without_spark():
    """The same stages, in a plain loop: more cases in less time."""

    @settings(SHORT, max_examples=10)
    @given(cases(RECORDS, least_cuts=1), shared_cases(RECORDS, least_cuts=1))
    def check(case, shared):
        check_one_partition(PlainEngine(), *case)
        check_any_partitions(PlainEngine(), *shared)

    check()


def asking(second, *costs, version=7, request_id="r"):
    topics = [{"name": f"t{number}", "partitions": cost} for number, cost in enumerate(costs)]
    request = {"request_id": request_id, "user": "alice", "operation": "CREATE_TOPICS", "api_version": version}
    request |= {"topics": topics, "request_throttle_ms": 0, "purgatory_ms": 0}
    return Entry(0, START + round(second * 1000), request)


def test_in_the_reference_a_raised_quota_is_not_retroactive():
    """-50 after 60; five seconds at 1, then five at 10: -50 + 5 + 50 = 5."""
    changes = [Change(("alice", ABSENT), 1.0, 10.0, 0), Change(("alice", ABSENT), 10.0, 20.0, START + 5000)]
    reference = Reference(Log(Window(), [], changes))
    assert [reference.decide(each, 0).after for each in (asking(0, 60), asking(10, 0))] == [-50, 5]


def test_in_the_reference_an_admitted_request_is_not_charged_again():
    """400 of 500, then 200 to -100: the third topic is refused for 20 s, then paid for; then it has expired."""
    log = Log(Window(100, 1), [], [Change(("alice", ABSENT), 5.0, None, 0)], Deduplication(20_005))
    reference = Reference(log)
    attempts = [asking(second, 400, 200, 50) for second in (0, 10, 20, 20, 20.006)]
    found = [reference.decide(each, offset) for offset, each in enumerate(attempts)]
    assert [(sum(each.admitted), each.after, each.repeats) for each in found] == [
        (2, -100, None),
        (2, -50, ("mutation-requests-0-0", 2)),
        (3, -50, ("mutation-requests-0-0", 2)),
        (3, -50, ("mutation-requests-0-0", 3)),
        (0, Fraction(-4997, 100), None),
    ]


def test_in_the_reference_the_number_of_remembered_requests_is_bounded():
    log = Log(Window(100, 1), [], [Change(("alice", ABSENT), 5.0, None, 0)], Deduplication(60_000, max_requests=2))
    reference = Reference(log)
    found = [reference.decide(asking(0, 1, request_id=name), 0) for name in ("a", "b", "c", "a", "c")]
    assert [each.repeats is not None for each in found] == [False, False, False, False, True]
