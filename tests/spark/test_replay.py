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
from tests.support.replay.mutants import MUTANTS, mutated
from tests.support.replay.plain import PlainEngine
from tests.support.replay.properties import check_any_partitions, check_one_partition
from tests.support.replay.run import Run

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


def breaks(engine, examples):
    """Return whether a property fails; Hypothesis must not see it, or it would warn about the length of the case."""
    broken = []

    @settings(SHORT, max_examples=examples)
    @given(cases(RECORDS, least_cuts=1), shared_cases(RECORDS, least_cuts=1))
    def check(case, shared):
        if broken:
            return
        try:
            check_one_partition(engine, *case)
            check_any_partitions(engine, *shared)
        except AssertionError as error:
            broken.append(error)

    check()
    return bool(broken)


@pytest.mark.nightly
@pytest.mark.parametrize("name", MUTANTS)
def test_a_faulty_job_is_detected(name):
    """The same stages run without Spark, each with one fault."""
    with mutated(name):
        assert breaks(PlainEngine(), examples=40)


def test_the_stages_without_spark_match_the_reference():
    """Without this, the tests of faulty jobs would pass for any reason."""
    assert not breaks(PlainEngine(), examples=10)


@pytest.mark.nightly
def test_a_faulty_job_is_detected_through_spark(engine):
    """Each batch forgets the one before: 55 tokens, of which each of three batches takes 40."""
    log = Log(Window(11, 1), [asking(second, 40) for second in range(3)], [Change(("alice", ABSENT), 5.0, None, 0)])
    run = Run(cuts=[0.3, 0.7])
    check_one_partition(engine, log, [run])
    with mutated("a bucket's state not saved in later batches"), pytest.raises(AssertionError, match="the rules say"):
        check_one_partition(engine, log, [run])


def asking(second, *costs, version=7, request_id="r"):
    topics = [{"name": f"t{number}", "partitions": cost} for number, cost in enumerate(costs)]
    request = {"request_id": request_id, "user": "alice", "operation": "CREATE_TOPICS", "api_version": version}
    request |= {"topics": topics, "request_throttle_ms": 0, "purgatory_ms": 0}
    return Entry(0, START + round(second * 1000), request)


def test_the_reference_reproduces_the_kips_worked_example():
    """Q = 5, S = 100: seven topics of 80, refused for 12 s, then admitted; an old client goes down to -220."""
    log = Log(Window(100, 1), [], [Change(("alice", ABSENT), 5.0, None, 0)])
    reference = Reference(log)
    found = [
        reference.decide(each, offset)
        for offset, each in enumerate(
            (asking(0, *[80] * 7), asking(0, 80), asking(12, 80), asking(12, 80), asking(12, 140, version=5))
        )
    ]
    assert [(each.after, all(each.admitted), each.throttle_ms[1]) for each in found] == [
        (-60, True, 0),
        (-60, False, 12_000),
        (-80, True, 0),
        (-80, False, 16_000),
        (-220, True, 44_000),
    ]


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
