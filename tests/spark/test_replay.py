"""Decisions are the same, however the stream is cut into batches."""

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from tests.support.replay.chance import cases, shared_cases
from tests.support.replay.engine import PlainEngine, SparkEngine
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
