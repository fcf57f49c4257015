"""The properties of a log and its runs, each violation explained in one sentence."""

import json
from collections.abc import Sequence
from typing import Any, Protocol

from tests.support.reference.log import Entry, Log
from tests.support.reference.model import Expected, Reference
from tests.support.replay.engine import DEAD_LETTERS, DECISIONS, Answer
from tests.support.replay.order import in_guaranteed_order, in_partition_order
from tests.support.replay.run import Run

Position = tuple[int, int]
"""Partition and offset."""


class Engine(Protocol):
    """An engine that runs the enforcing query."""

    def answers(self, log: Log, run: Run) -> list[Answer]:
        """Return all answers that were written, including copies."""


def check_one_partition(engine: Engine, log: Log, runs: Sequence[Run]) -> None:
    """Check logs whose buckets have one partition each: any cut gives the same bytes, and these follow the rules."""
    found = [_once(log, run, engine.answers(log, run)) for run in runs]
    _check_rules(log, in_partition_order(log), found[0], runs[0])
    for run, answers in zip(runs[1:], found[1:], strict=True):
        _check_same(found[0], answers, f"{run} compared with {runs[0]}")


def check_any_partitions(engine: Engine, log: Log, runs: Sequence[Run]) -> None:
    """Check logs whose buckets have several partitions, in runs of the same batches: each batch is decided in order."""
    batches = [[(row[1], row[2]) for row in batch] for batch in runs[0].batches(log)]
    found = [_once(log, run, engine.answers(log, run)) for run in runs]
    _check_rules(log, in_guaranteed_order(log, batches), found[0], runs[0])
    for run, answers in zip(runs[1:], found[1:], strict=True):
        _check_same(found[0], answers, f"{run} compared with {runs[0]}")


def _once(log: Log, run: Run, answers: Sequence[Answer]) -> dict[Position, Answer]:
    """Return the answer of each record: one, or equal copies if a batch was processed twice."""
    found: dict[Position, Answer] = {}
    copies = 0
    for answer in answers:
        source = json.loads(answer[2])["source"]
        position = source["partition"], source["offset"]
        copies += position in found
        assert found.setdefault(position, answer) == answer, f"{position} was answered twice, and differently ({run})"
    assert run.crash or not copies, f"{copies} answers were written twice without a crash ({run})"
    wanted = {(entry.partition, offset) for offset, entry in log.placed()}
    assert found.keys() == wanted, f"not answered: {wanted - found.keys()} ({run})"
    return found


def _check_same(one: dict[Position, Answer], other: dict[Position, Answer], what: str) -> None:
    for position, answer in one.items():
        assert other[position] == answer, f"{position} depends on the run: {other[position]} and not {answer} ({what})"


def _check_rules(log: Log, ordered: Sequence[tuple[int, Entry]], found: dict[Position, Answer], run: Run) -> None:
    reference = Reference(log)
    for offset, entry in ordered:
        topic, key, value = found[entry.partition, offset]
        decision = json.loads(value)
        where = f"{entry.partition}-{offset} ({entry}, {run}): {decision}"
        assert (topic, key) == (DECISIONS, f"{entry.partition}-{offset}".encode()), where
        _check_decision(entry, reference.decide(entry, offset), decision, where)
    for offset, entry in log.placed():
        if entry.request is None:
            topic, key, value = found[entry.partition, offset]
            assert (topic, key) == (DEAD_LETTERS, f"{entry.partition}-{offset}".encode())
            letter = json.loads(value)
            assert letter["timestamp"] == entry.timestamp
            assert ": " in letter["error"], letter


def _check_decision(entry: Entry, expected: Expected, decision: dict[str, Any], where: str) -> None:
    where = f"{where}, where the rules say {expected}"
    outcome = "ADMITTED" if all(expected.admitted) else "PARTIAL" if any(expected.admitted) else "REJECTED"
    assert decision["outcome"] == outcome, where
    assert [topic["error_code"] for topic in decision["topics"]] == [0 if each else 89 for each in expected.admitted], (
        where
    )
    assert (decision["user_tag"], decision["client_tag"], decision["quota"]) == (*expected.tags, expected.rate), where
    for reported, tokens in ((decision["tokens_before"], expected.before), (decision["tokens"], expected.after)):
        assert (reported is None) == (tokens is None), where
        assert reported is None or abs(reported - tokens) <= 1e-9 * max(1, abs(tokens)), where
    repeats = decision["repeats"] and (decision["repeats"]["decision_id"], decision["repeats"]["topics"])
    assert repeats == expected.repeats, where
    low, high = expected.throttle_ms
    throttle = decision["controller_throttle_ms"]
    assert low <= throttle <= high, where
    throttle_ms = max(entry.request["request_throttle_ms"], throttle - entry.request["purgatory_ms"], 0)
    assert (decision["throttle_time_ms"], decision["retry_at"]) == (throttle_ms, entry.timestamp + throttle_ms), where
    assert decision["timestamp"] == entry.timestamp, where
