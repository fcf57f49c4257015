"""Observations of unmodified clients at the gateway are compared with those at a broker that enforces the quota."""

from dataclasses import replace

import pytest

from tests.evidence.gateway.conformance.comparison import compare
from tests.evidence.gateway.conformance.program import Difference, Observation, Program

PROGRAM = Program("a program", users=1)
FIRST = Observation("case", "first", "ok", 1000, 1010, 0)
REJECTED = Observation("case", "second", "89", 1020, 1030, 7985)
MUTED = Observation("case", "third", "ok", 1030, 9020, 0)
DIRECT = [FIRST, REJECTED, MUTED]
# The same debt of 8 s, paid off at 9000; each request takes 400 ms more, and another clock begins at 0.
GATEWAY = [
    replace(FIRST, sent=0, received=410),
    replace(REJECTED, sent=420, received=830, throttle_ms=7500),
    replace(MUTED, sent=830, received=8340),
]


def mismatches(gateway, direct=DIRECT, program=PROGRAM):
    return [(row.step, row.mismatch) for row in compare(program, direct, gateway) if row.mismatch]


def test_a_later_response_with_the_same_debt_is_the_same():
    assert mismatches(GATEWAY) == []


@pytest.mark.parametrize(
    ("number", "change", "why"),
    [
        (1, {"seen": "ok"}, "the outcomes differ"),
        (1, {"detail": "a message"}, "the details differ: …… and …a message…"),
        (1, {"throttle_ms": None}, "only one side reports a throttle time"),
        (1, {"throttle_ms": 0}, "the debt is paid off"),
        (1, {"throttle_ms": 8100}, "the debt is paid off 7,995 to 8,015 ms"),
        (1, {"throttle_ms": 7000}, "and 7,010 to 7,830 ms at the gateway"),
        (2, {"received": 900}, "it ends 8,020 ms after the first request at the broker, and 900 ms at the gateway"),
        (2, {"received": 90_000}, "and 90,000 ms at the gateway"),
        (2, {"step": "another"}, "only one side has it"),
    ],
)
def test_a_difference_is_detected(number, change, why):
    """Each by its reason, with both values."""
    gateway = list(GATEWAY)
    gateway[number] = replace(gateway[number], **change)
    mismatched = mismatches(gateway)
    assert mismatched
    assert why in mismatched[0][1]


def test_a_throttle_time_that_is_rounded_up_is_the_same():
    """Kafka rounds half up: 1 ms less at most."""
    quick = [replace(GATEWAY[0], received=0), replace(GATEWAY[1], sent=20, received=20, throttle_ms=7996)]
    exact = [replace(FIRST, received=1000), replace(REJECTED, sent=1020, received=1020, throttle_ms=7995)]
    assert mismatches(quick, exact) == []


def test_a_listed_difference_must_occur_as_listed():
    """It must neither be smaller nor larger."""
    gateway = [GATEWAY[0], replace(GATEWAY[1], seen="ok", throttle_ms=0), GATEWAY[2]]
    listed = replace(PROGRAM, differences={("case", "second"): Difference("free", "89", "ok", throttle=True)})

    assert mismatches(gateway, program=listed) == []
    (mismatch,) = mismatches(GATEWAY, program=listed)
    assert mismatch == ("second", "only the broker should report a throttle time")
    elsewhere = replace(PROGRAM, differences={("case", "second"): Difference("free", "89", "90")})
    (mismatch,) = mismatches(gateway, program=elsewhere)
    assert mismatch == ("second", "the difference should be '89' and '90'")
