"""The comparison of the project's bucket with Kafka's, step by step.

Kafka plays a sequence first, then the project plays it at the resulting times. Admitted topics must be the same,
tokens must be equal within the rounding of the bucket's additions, and throttle times must be equal to the millisecond
but for differences-from-kafka.md: rounded up, and capped. No expected value is computed by the
code under test.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from quota.records.decision import Decision
from quota.records.request import Mode
from tests.evidence.conformance.bucket.oracle import Answer, Oracle
from tests.evidence.conformance.bucket.project import play
from tests.evidence.conformance.bucket.sequences import Change, Sequence, Try

MAX_INT = 2**31 - 1
EPSILON = 2.0**-52
ROUNDINGS_A_STEP = 4
"""A division, a product and a sum to fill a bucket, and a sum to charge it, each wrong by at most half an epsilon.

The two buckets are filled at different times, because a rejected try rewrites Kafka's bucket but not the project's. So
both may be wrong, and in each step they may move apart by `ROUNDINGS_A_STEP` epsilons of the most that they have held.
A full bucket has no rounding error.
"""


class MismatchError(AssertionError):
    """The project and Kafka disagree, and no intended difference explains it."""


@dataclass(slots=True)
class Tally:
    """Counts of the comparison."""

    sequences: int = 0
    tries: int = 0
    topics: int = 0
    rejected: int = 0
    changes: int = 0
    steps_back: int = 0
    equal_to_the_ms: int = 0
    rounded_up: int = 0
    capped: int = 0
    within_rounding: int = 0
    ended_early: int = 0
    """Sequences that ended at a debt that only rounding decides about."""
    largest_tokens: float = 0.0
    """The largest difference in tokens."""
    at_tokens: float = 0.0
    """The size of that bucket."""
    largest_share: float = 0.0
    """The largest difference as a share of the tolerance."""
    exact: int = 0
    """Tries whose tokens were equal to the last bit."""


def compare(oracle: Oracle, sequences: Iterable[Sequence]) -> Tally:
    """Play sequences through both."""
    tally = Tally()
    for number, sequence in enumerate(sequences):
        answers = oracle.modelled(sequence)
        decisions = play(sequence, [answer.at for answer in answers])
        _Comparison(number, sequence, tally).run(answers, decisions)
        tally.sequences += 1
    return tally


@dataclass(slots=True)
class _Comparison:
    number: int
    sequence: Sequence
    tally: Tally
    step: int = 0
    rate: float = 0.0
    full_at: int = 0
    """The last step at which the bucket was full."""
    largest: float = 0.0
    """The most tokens or debt since then."""
    written: float = 0.0
    """Tokens after the last charge; the documented rounding is in proportion to it."""

    def run(self, answers: list[Answer], decisions: list[Decision | None]) -> None:
        latest = 0
        for number, (step, answer, decision) in enumerate(zip(self.sequence.steps, answers, decisions, strict=True)):
            self.step = number
            if isinstance(step, Change):
                self.rate = step.rate
                self.tally.changes += self.step > 0
            elif isinstance(step, Try):
                if self._hinges_on_rounding(step, answer, decision):
                    self.tally.ended_early += 1
                    return
                self.tally.steps_back += answer.at < latest
                self._try(step, answer, decision)
            latest = max(latest, answer.at)

    def _try(self, step: Try, kafka: Answer, project: Decision) -> None:
        admitted = _admitted(project)
        if admitted != kafka.admitted:
            self._mismatch(step, kafka, project, "admitted topics")
        for theirs, ours in ((kafka.before, project.tokens_before), (kafka.after, project.tokens)):
            if not abs(theirs - ours) <= self.tolerance:
                self._mismatch(step, kafka, project, f"tokens, beyond {self.tolerance:.3g}")
            self._keep_largest(abs(theirs - ours), theirs)
        if not self._throttle_agrees(step, kafka, project.controller_throttle_ms):
            self._mismatch(step, kafka, project, "throttle time")
        if any(admitted):
            self.written = kafka.after
        self.tally.tries += 1
        self.tally.topics += len(admitted)
        self.tally.rejected += admitted.count(False)
        self.tally.exact += kafka.after == project.tokens
        self.tally.within_rounding += kafka.verdicts.count("F")

    def _hinges_on_rounding(self, step: Try, kafka: Answer, project: Decision) -> bool:
        """Whether they disagree about a debt so close to the limit that not even Kafka's own bits decide it.

        Later steps are not comparable, so the sequence ends.
        """
        self._observe(kafka)
        ours = _admitted(project)
        if ours == kafka.admitted:
            return False
        first = [a == b for a, b in zip(ours, kafka.admitted, strict=True)].index(False)
        debt = sum(step.costs[:first]) - kafka.before
        return abs(debt - (1e-9 + 1e-12 * abs(self.written))) <= self.tolerance

    def _observe(self, kafka: Answer) -> None:
        if kafka.before >= self.rate * self.sequence.window.num * self.sequence.window.size_seconds:
            self.full_at, self.largest = self.step, 0.0
        self.largest = max(self.largest, abs(kafka.before), abs(kafka.after))

    @property
    def tolerance(self) -> float:
        """Largest rounding error since the bucket was full, tokens."""
        return (self.step - self.full_at + 1) * ROUNDINGS_A_STEP * EPSILON * self.largest

    def _throttle_agrees(self, step: Try, kafka: Answer, reported: int) -> bool:
        throttled = "R" in kafka.verdicts if step.mode is Mode.STRICT else kafka.after < 0
        if not throttled:
            return reported == 0 == kafka.throttle_ms
        wait = -kafka.after / self.rate * 1000
        if wait >= MAX_INT:
            self.tally.capped += 1
            return reported == MAX_INT and kafka.throttle_ms == as_int(half_up(wait))
        # Kafka's tokens are in doubt by the tolerance, and a debt within the documented rounding counts as none:
        # by so much the wait may exceed a whole millisecond without being rounded up to the next.
        doubt = self.tolerance / self.rate * 1000
        forgiven = doubt + (1e-9 + 1e-12 * max(abs(self.written), abs(kafka.after))) / self.rate * 1000
        self.tally.equal_to_the_ms += reported == kafka.throttle_ms
        self.tally.rounded_up += reported == kafka.throttle_ms + 1
        rounded_up = max(0, math.ceil(wait - forgiven)) <= reported <= math.ceil(wait + doubt)
        return rounded_up and reported - kafka.throttle_ms in {0, 1}

    def _keep_largest(self, difference: float, tokens: float) -> None:
        if difference > self.tally.largest_tokens:
            self.tally.largest_tokens, self.tally.at_tokens = difference, abs(tokens)
        if difference:
            self.tally.largest_share = max(self.tally.largest_share, difference / self.tolerance)

    def _mismatch(self, step: Try, kafka: Answer, project: Decision, kind: str) -> None:
        ours = (
            f"admitted {_admitted(project)}, tokens {project.tokens_before!r} -> "
            f"{project.tokens!r}, {project.controller_throttle_ms} ms"
        )
        theirs = f"{kafka.verdicts}, tokens {kafka.before!r} -> {kafka.after!r}, {kafka.throttle_ms} ms"
        raise MismatchError(
            f"{kind}: sequence {self.number}, step {self.step} of {len(self.sequence.steps)} ({step}) at {kafka.at}, "
            f"rate {self.rate!r}, {self.sequence.window}\n  Kafka:   {theirs}\n  project: {ours}"
        )


def _admitted(project: Decision) -> list[bool]:
    return [topic.error_code == 0 for topic in project.topics]


def half_up(value: float) -> int:
    """Round as Java's Math.round does."""
    whole = math.floor(value)
    return whole + (value - whole >= 1 / 2)


def as_int(value: int) -> int:
    """Return a long as Kafka reports it in a throttle time: truncated to an int, and at least 0."""
    low = min(value, 2**63 - 1) % 2**32
    return max(0, low - 2**32 if low > MAX_INT else low)
