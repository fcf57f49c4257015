"""Decisions are the same, however the stream is cut into batches."""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, assume, given, settings

from quota.algorithms.token_bucket import TokenBucket
from quota.records import codec
from quota.whatif.simulation import simulate
from tests.support.reference.log import Entry, Log, Row
from tests.support.reference.model import Expected, Reference, Tags
from tests.support.replay.chance import cases, is_demanding, logs, runs, shared_cases
from tests.support.replay.engine import (
    DEAD_LETTERS,
    DECISIONS,
    Answer,
    LoggedQuotas,
    PlainEngine,
    Run,
    SparkEngine,
    enforce_config_of,
)

Position = tuple[int, int]
"""Partition and offset."""


Engine = SparkEngine | PlainEngine


def check_one_partition(engine: Engine, log: Log, runs: Sequence[Run]) -> None:
    """Check logs whose buckets have one partition each: any cut gives the same bytes, and these follow the rules."""
    _check(engine, log, runs, [(offset, entry) for offset, entry in log.placed() if entry.request is not None])


def check_any_partitions(engine: Engine, log: Log, runs: Sequence[Run]) -> None:
    """Check logs whose buckets have several partitions, in runs of the same batches: each batch is decided in order."""
    _check(engine, log, runs, _in_order_of_batches(log, runs[0].batches(log)))


def _check(engine: Engine, log: Log, runs: Sequence[Run], ordered: Sequence[tuple[int, Entry]]) -> None:
    """Check that requests are decided in an order by the rules, and equally in all runs."""
    first, *others = [_once(log, run, engine.answers(log, run)) for run in runs]
    _check_rules(log, ordered, first, runs[0])
    for run, answers in zip(runs[1:], others, strict=True):
        for position, answer in first.items():
            assert answers[position] == answer, f"{position} depends on the run: {run} compared with {runs[0]}"


def _in_order_of_batches(log: Log, batches: Sequence[Sequence[Row]]) -> list[tuple[int, Entry]]:
    """Return requests with their offsets in the order of buckets whose requests are in several partitions.

    Batch after batch; in a batch by the highest timestamp of the partition so far among the bucket's requests of that
    batch, then by partition, then by offset.
    """
    reference = Reference(log)
    entries = {(entry.partition, offset): entry for offset, entry in log.placed()}
    ordered: list[tuple[int, Entry]] = []
    for batch in batches:
        highest: dict[tuple[Tags | None, int], int] = {}
        keyed = []
        for partition, offset in sorted(row[1:3] for row in batch):
            entry = entries[partition, offset]
            if entry.request is None:
                continue
            source = reference.bucket_of(entry), partition
            highest[source] = max(entry.timestamp, highest.get(source, entry.timestamp))
            keyed.append((highest[source], partition, offset))
        ordered += [(offset, entries[partition, offset]) for _, partition, offset in sorted(keyed)]
    return ordered


def _once(log: Log, run: Run, answers: Sequence[Answer]) -> dict[Position, Answer]:
    """Return the answer of each record: one, or equal copies if a batch was processed twice."""
    once: dict[Position, Answer] = {}
    copies = 0
    for answer in answers:
        source = json.loads(answer[2])["source"]
        position = source["partition"], source["offset"]
        copies += position in once
        assert once.setdefault(position, answer) == answer, f"{position} was answered twice, and differently ({run})"
    assert run.crash or not copies, f"{copies} answers were written twice without a crash ({run})"
    wanted = {(entry.partition, offset) for offset, entry in log.placed()}
    assert once.keys() == wanted, f"not answered: {wanted - once.keys()} ({run})"
    return once


def _check_rules(log: Log, ordered: Sequence[tuple[int, Entry]], answers: dict[Position, Answer], run: Run) -> None:
    reference = Reference(log)
    for offset, entry in ordered:
        topic, key, value = answers[entry.partition, offset]
        decision = json.loads(value)
        where = f"{entry.partition}-{offset} ({entry}, {run}): {decision}"
        assert (topic, key) == (DECISIONS, f"{entry.partition}-{offset}".encode()), where
        _check_decision(entry, reference.decide(entry, offset), decision, where)
    for offset, entry in log.placed():
        if entry.request is None:
            topic, key, value = answers[entry.partition, offset]
            assert (topic, key) == (DEAD_LETTERS, f"{entry.partition}-{offset}".encode())
            letter = json.loads(value)
            assert letter["timestamp"] == entry.timestamp
            assert ": " in letter["error"], letter


def _check_decision(entry: Entry, expected: Expected, decision: dict[str, Any], where: str) -> None:
    where = f"{where}, where the rules say {expected}"
    outcome = "ADMITTED" if all(expected.admitted) else "PARTIAL" if any(expected.admitted) else "REJECTED"
    assert decision["outcome"] == outcome, where
    assert [topic["error_code"] for topic in decision["topics"]] == [
        0 if admitted else 89 for admitted in expected.admitted
    ], where
    assert (decision["user_tag"], decision["client_tag"], decision["quota"]) == (*expected.tags, expected.rate), where
    for reported, tokens in ((decision["tokens_before"], expected.before), (decision["tokens"], expected.after)):
        assert (reported is None) == (tokens is None), where
        assert reported is None or abs(reported - tokens) <= 1e-9 * max(1, abs(tokens)), where
    repeats = decision["repeats"] and (decision["repeats"]["decision_id"], decision["repeats"]["topics"])
    assert repeats == expected.repeats, where
    withdraws = decision["withdraws"] and decision["withdraws"]["decision_id"]
    assert withdraws == expected.withdraws, where
    assert (decision["withdraws"] is not None) == entry.request.get("withdraws", False), where
    low, high = expected.throttle_ms
    throttle = decision["controller_throttle_ms"]
    assert low <= throttle <= high, where
    throttle_ms = max(entry.request["request_throttle_ms"], throttle - entry.request["purgatory_ms"], 0)
    assert (decision["throttle_time_ms"], decision["retry_at"]) == (throttle_ms, entry.timestamp + throttle_ms), where
    assert decision["timestamp"] == entry.timestamp, where


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
