"""Decisions are the same, however the stream is cut into batches."""

import json
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, Phase, assume, given, settings

from quota.algorithms.token_bucket import TokenBucket
from quota.records import codec
from quota.whatif.simulation import simulate
from tests.support.replay.chance import cases, is_demanding, logs, runs, shared_cases
from tests.support.replay.engine import LoggedQuotas, PlainEngine, SparkEngine, enforce_config_of
from tests.support.replay.properties import check_any_partitions, check_one_partition

# Hypothesis does not make what fails smaller: each try takes seconds.
SHORT = settings(phases=[Phase.generate], suppress_health_check=list(HealthCheck), database=None)

ONE_OR_MANY = pytest.mark.parametrize("examples", [1, pytest.param(40, marks=pytest.mark.nightly)])
"""A single example is a demanding one, because the first that Hypothesis generates is the simplest."""


def drawing(examples):
    """Return settings of so many examples: the single one is always the same, the many are others each night."""
    return settings(SHORT, max_examples=examples, derandomize=examples == 1)


@pytest.fixture(scope="module")
def engine(spark):
    return SparkEngine(spark)


@ONE_OR_MANY
def test_any_batches_give_the_same_decisions_as_the_reference(engine, examples):
    """One partition a bucket: uncut and cut at random, restarted, crashed, on one to four state partitions.

    And with the stateful stage with pandas or without it, before and after a restart.
    """

    @drawing(examples)
    @given(cases())
    def check(case):
        assume(examples > 1 or is_demanding(*case))
        check_one_partition(engine, *case)

    check()


@ONE_OR_MANY
def test_several_partitions_keep_their_order_within_a_batch(engine, examples):
    """Each batch is in the order of timestamp, partition and offset: equal cuts give equal decisions."""

    @drawing(examples)
    @given(shared_cases())
    def check(case):
        assume(examples > 1 or is_demanding(*case))
        check_any_partitions(engine, *case)

    check()


@settings(SHORT, max_examples=settings.default.max_examples // 2)
@given(cases(), shared_cases())
def test_any_batches_give_the_same_decisions_without_spark(case, shared):
    """The same stages, in a plain loop: more cases in less time."""
    check_one_partition(PlainEngine(), *case)
    check_any_partitions(PlainEngine(), *shared)


def in_one_file(log):
    """Return the log as lines of a file: all in one partition, requests with their time, and no line blank."""
    entries = [
        replace(
            entry,
            partition=0,
            request=entry.request and {**entry.request, "timestamp": entry.timestamp},
            bad=(entry.bad or b"").strip() or b"no request",
        )
        for entry in log.entries
    ]
    return replace(log, entries=entries)


@ONE_OR_MANY
def test_the_job_and_simulate_decide_the_same_bytes_equally(engine, examples):
    """One partition, cut at random into batches for the job, and as lines of a file for `simulate`."""

    @drawing(examples)
    @given(logs().map(in_one_file), runs())
    def check(log, run):
        assume(examples > 1 or is_demanding(log, [run]))
        quotas = LoggedQuotas(log.changes, knows_all=True).read_until(0)
        config = enforce_config_of(log)
        lines = [entry.value for entry in log.entries]
        algorithm = TokenBucket(log.window, log.deduplication)
        simulated = simulate(lines, quotas, algorithm, policy=config.policy)
        # A line without a time has none for `simulate`; the job has the record's.
        expected = [
            json.loads(codec.encode(answer)) | {"timestamp": entry.timestamp}
            for answer, entry in zip(simulated, log.entries, strict=True)
        ]
        answers = [json.loads(value) for _, _, value in engine.answers(log, run)]
        by_offset = {answer["source"]["offset"]: answer for answer in answers}
        assert [by_offset[offset] for offset in range(len(lines))] == expected

    check()
