"""The intended differences of a bucket (docs/explanation/differences-from-kafka.md), as cases.

Each case has both answers, calculated by hand, and both are checked. Kafka's classes are not modified.
"""

from collections.abc import Sequence as Steps
from dataclasses import dataclass
from fractions import Fraction

import msgspec

from quota.errors import BadRecord
from quota.records import codec
from quota.records.decision import Decision
from quota.records.quota_log import QuotaRecord, Window
from quota.records.request import Mode
from tests.evidence.conformance.bucket.comparison import MAX_INT, MismatchError
from tests.evidence.conformance.bucket.oracle import Answer, Oracle
from tests.evidence.conformance.bucket.project import play
from tests.evidence.conformance.bucket.sequences import Change, Expire, Sequence, Step, Throttle, Try

KIP, DEFAULT = Window(100, 1), Window()
_REJECTED_TRIES = 50_000
_ONE_ROUNDING = 2.0**-34
"""Half the last bit of a K between half a million and a million, tokens."""


@dataclass(frozen=True, slots=True)
class Case:
    """A difference: the steps, and the answers of Kafka and of the project to the last request."""

    difference: str
    happens: str
    kafka: str
    project: str
    window: Window = DEFAULT
    steps: tuple[Step, ...] = ()
    options: tuple[tuple[str, float], ...] = ()
    """Options of the project's quotas, which Kafka does not have."""
    here: int | None = None
    """Time of the project's last request if it differs from Kafka's, ms after the first step."""


def strict(wait: int | Throttle, *costs: int) -> Try:
    """Return a request of a client that knows the error."""
    return Try(wait, Mode.STRICT, costs)


CASES = (
    Case(
        "a clock that steps back",
        "Q = 5, B = 500: 100 mutations, 350 at a time 20 s earlier, and 1 at that time",
        "rejected, K = -50, 10000 ms",
        "admitted, K = 50",
        KIP,
        (Change(0, 5.0), strict(0, 100), strict(-20_000, 350), strict(0, 1)),
    ),
    Case(
        "a quota that is changed (raised)",
        "Q = 1, B = 11: 31 mutations, 10 s later Q = 10, and 1 mutation",
        "admitted, K = 80",
        "rejected, K = -10, 1000 ms",
        steps=(Change(0, 1.0), strict(0, 31), Change(10_000, 10.0), strict(0, 1)),
    ),
    Case(
        "a quota that is changed (lowered)",
        "Q = 10, B = 110: 130 mutations, 1 s later Q = 1, and 1 mutation",
        "rejected, K = -19, 19000 ms",
        "rejected, K = -10, 10000 ms",
        steps=(Change(0, 10.0), strict(0, 130), Change(1000, 1.0), strict(0, 1)),
    ),
    Case(
        "a quota that is changed (twice between two uses)",
        "Q = 1, B = 11: 31 mutations, 5 s later Q = 100, 1 s later Q = 2, and 1 mutation",
        "rejected, K = -8, 4000 ms",
        "rejected, K = -14, 7000 ms",
        steps=(Change(0, 1.0), strict(0, 31), Change(5000, 100.0), Change(1000, 2.0), strict(0, 1)),
    ),
    Case(
        "a quota that is removed and set again",
        "Q = 5, B = 500: 560 mutations, removed, 1 mutation 1 ms later, Q = 5 again, and 1 mutation",
        "admitted, K = 500",
        "rejected, K = -59.995, 11999 ms",
        KIP,
        (Change(0, 5.0), strict(0, 560), Change(0, None), strict(1, 1), Change(0, 5.0), strict(0, 1)),
    ),
    Case(
        "throttle time: rounded",
        "Q = 3, B = 33: 34 mutations, and 1 that is rejected",
        "rejected, K = -1, 333 ms",
        "rejected, K = -1, 334 ms",
        steps=(Change(0, 3.0), strict(0, 34), strict(0, 1)),
    ),
    Case(
        "throttle time: a client that waits for it is admitted",
        "the same, and 1 mutation after the throttle time, 333 ms and 334 ms",
        "rejected, K = -0.001, 0 ms",
        "admitted, K = 0.002",
        steps=(Change(0, 3.0), strict(0, 34), strict(0, 1), strict(Throttle(), 1)),
        here=334,
    ),
    Case(
        "throttle time: at most 2147483647 ms",
        "Q = 1, B = 11: 4294979 mutations, and 1 that is rejected for 4294968000 ms",
        "rejected, K = -4294968, 704 ms",
        f"rejected, K = -4294968, {MAX_INT} ms",
        steps=(Change(0, 1.0), strict(0, 4_294_979), strict(0, 1)),
    ),
    Case(
        "a debt within rounding counts as none",
        "Q = 0.7, B = 7.7: 14 mutations, and 1 mutation 9 s later, when the debt of 6.3 is paid off",
        "rejected, K = -8.9e-16, 0 ms",
        "admitted, K = -8.9e-16",
        steps=(Change(0, 0.7), strict(0, 14), strict(9000, 1)),
    ),
    Case(
        "burst: a quota's own",
        "Q = 5, B = 500, here an own burst of 1000: 600 mutations, and 1",
        "rejected, K = -100, 20000 ms",
        "admitted, K = 400",
        KIP,
        (Change(0, 5.0), strict(0, 600), strict(0, 1)),
        options=(("burst", 1000.0),),
    ),
    Case(
        "debt: `max_debt_ms`",
        "Q = 5, B = 55, here `max_debt_ms` of 60000: a million mutations, and 1",
        "rejected, K = -999945, 199989000 ms",
        "rejected, K = -300, 60000 ms",
        steps=(Change(0, 5.0), strict(0, 1_000_000), strict(0, 1)),
        options=(("max_debt_ms", 60_000),),
    ),
    Case(
        "state of the buckets: an hour without a charge",
        "Q = 5, B = 500: 36500 mutations, 1 rejected half an hour later, and 1 after 3601 s",
        "admitted, K = 500",
        "rejected, K = -17995, 3599000 ms",
        KIP,
        (Change(0, 5.0), strict(0, 36_500), strict(1_800_000, 1), Expire(1_801_000), strict(0, 1)),
    ),
)


def differences(oracle: Oracle) -> list[Case]:
    """Check the answers of all cases, and return the cases."""
    for case in CASES:
        sequence = Sequence(case.window, case.steps)
        answers = oracle.plain(sequence)
        times = [answer.at for answer in answers]
        if case.here is not None:
            times[-1] = times[0] + case.here
        decision = play(sequence, times, **dict(case.options))[-1]
        for side, expected, answer in (
            ("Kafka", case.kafka, _kafkas(answers[-1])),
            ("the project", case.project, _ours(decision)),
        ):
            if expected != answer:
                raise MismatchError(f"{case.difference} ({case.happens}): {side} answers {answer}, and not {expected}")
    return [*CASES, rejected_tries(oracle), no_number(oracle, "nan", "NaN"), no_number(oracle, "inf", "1e999")]


def rejected_tries(oracle: Oracle) -> Case:
    """Return the case of many rejected tries: Kafka's tokens are rounded at each of them."""
    rate, wait = 0.7, 7
    tries: Steps[Step] = [strict(wait, 1)] * _REJECTED_TRIES
    sequence = Sequence(DEFAULT, (Change(0, rate), strict(0, 1_000_000), *tries))
    answers = oracle.plain(sequence)
    last = play(sequence, [answer.at for answer in answers])[-1]
    exact = 11 * Fraction(rate) - 1_000_000 + Fraction(_REJECTED_TRIES * wait, 1000) * Fraction(rate)
    theirs, ours = (float(abs(Fraction(tokens) - exact)) for tokens in (answers[-1].after, last.tokens))
    if not (ours < _ONE_ROUNDING < theirs / 1000 and {answers[-1].verdicts, *_verdicts(last)} == {"R"}):
        raise MismatchError(f"{_REJECTED_TRIES} rejected tries: Kafka is off by {theirs} tokens, the project by {ours}")
    return Case(
        "a rejected request",
        f"Q = 0.7: a million mutations, and {_REJECTED_TRIES} rejected attempts, one every {wait} ms",
        f"K is off by {theirs:.1e}",
        f"K is off by {ours:.1e}",
    )


def no_number(oracle: Oracle, rate: str, written: str) -> Case:
    """Return the case of a rate of NaN or infinity: Kafka accepts it, the project does not."""
    steps: tuple[Step, ...] = (Change(0, float(rate)), *[strict(0, 1_000_000_000)] * 3)
    kafka = oracle.plain(Sequence(DEFAULT, steps))
    admitted = [answer.verdicts for answer in kafka[1:]] == ["A"] * 3
    value = f'{{"entity": {{"user": "alice"}}, "controller_mutation_rate": {written}}}'
    try:
        codec.decode(value.encode(), msgspec.json.Decoder(QuotaRecord))
    except BadRecord:
        rejected = True
    else:
        rejected = False
    if not (admitted and rejected):
        raise MismatchError(f"a rate of {rate}: Kafka admits {admitted}, the project rejects the quota {rejected}")
    return Case(
        "a rate of NaN or infinity", f"Q = {written}: 1000000000 mutations, three times", "admitted", "no such quota"
    )


def _kafkas(answer: Answer) -> str:
    return _outcome(answer.verdicts, answer.before, answer.throttle_ms)


def _ours(decision: Decision) -> str:
    return _outcome(_verdicts(decision), decision.tokens_before, decision.controller_throttle_ms)


def _verdicts(decision: Decision) -> str:
    return "".join("A" if topic.error_code == 0 else "R" for topic in decision.topics)


def _outcome(verdicts: str, before: float, throttle_ms: int) -> str:
    """Return the verdict on the last topic, K before the request, and the throttle time if it was rejected."""
    digits = f"{before:.1e}" if abs(before) < 1e-9 else f"{round(before, 6):.12g}"
    return f"admitted, K = {digits}" if verdicts[-1] == "A" else f"rejected, K = {digits}, {throttle_ms} ms"
