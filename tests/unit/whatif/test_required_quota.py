"""The quota that recorded requests need: by hand, compared with all stretches, and with the bucket itself."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from quota.admission.decide import decide
from quota.algorithms.token_bucket import TokenBucket
from quota.records.decision import Outcome
from quota.records.quota import Window
from quota.whatif.required_quota import RequiredQuota
from tests.support.factories import resolved

WINDOW = Window()
"""S * W is 11 s."""


def need(*requests, window=WINDOW):
    """Return the needed quota of requests: a time in ms, and the mutations of each topic."""
    found = RequiredQuota(window)
    for at, *charges in requests:
        found.add(at, charges)
    return found


@pytest.mark.parametrize(
    ("requests", "rate", "load"),
    [
        ([(0, 66)], 0, 6),  # one topic may overdraw; 66 are what 11 s of 6 hold
        ([(0, 66, 11)], 6, 7),  # before the second topic 66 are charged
        ([(0, 55), (1000, 17)], 55 / 12, 6),  # 11 s of burst and one of gain: 55 before the second, 72 after it
        ([(0, 22), (1_000_000, 33)], 22 / 1011, 3),  # long paid by then; the second alone is 33 in 11 s
        ([(0, 1), (100_000, 44), (101_000, 16)], 44 / 12, 5),  # the stretch that counts begins with the second
        ([(0, 44), (0, 33), (0, 22)], 7, 9),  # at one moment: before the last there are 77
        ([(5000, 24), (4000, 24), (6000, 1)], 4, 48 / 11),  # time never runs backwards: 5,000, 5,000, 6,000
        ([(0, 66), (0, 0)], 6, 6),  # what costs nothing is refused in debt, too
        ([(0,)], 0, 0),
        ([(0, 0), (1000, 0)], 0, 0),
    ],
)
def test_the_required_quota_matches_examples_by_hand(requests, rate, load):
    found = need(*requests)
    assert (found.no_refusal, found.no_debt) == (pytest.approx(rate), pytest.approx(load))


def test_requested_mutations_are_counted():
    found = need((0, 5, 6), (0,), (7, 9))
    assert (found.charged, found.largest) == (20, 11)


courses = st.lists(
    st.tuples(st.integers(0, 3_000) | st.integers(0, 10_000_000), st.lists(st.integers(0, 50), min_size=1, max_size=3)),
    min_size=1,
    max_size=30,
).map(lambda each: list(timed(each)))


def timed(course):
    now = 0
    for gap, charges in course:
        now += gap
        yield now, charges


def outcomes(course, rate):
    requests = [resolved(*charges, at=at, rate=rate, offset=number) for number, (at, charges) in enumerate(course)]
    return {each.outcome for each in decide(None, requests, TokenBucket(WINDOW))[1]}


@given(courses)
def test_with_it_the_bucket_refuses_nothing_and_with_less_it_refuses(course):
    rate = need(*((at, *charges) for at, charges in course)).no_refusal
    assume(rate > 0)
    assert outcomes(course, rate * (1 + 1e-6)) == {Outcome.ADMITTED}
    assert outcomes(course, rate * (1 - 1e-3)) != {Outcome.ADMITTED}


@given(courses)
def test_with_its_load_the_bucket_is_never_in_debt(course):
    load = need(*((at, *charges) for at, charges in course)).no_debt
    assume(load > 0)

    def lowest(rate):
        requests = [resolved(*charges, at=at, rate=rate, offset=number) for number, (at, charges) in enumerate(course)]
        return min(each.tokens for each in decide(None, requests, TokenBucket(WINDOW))[1])

    assert lowest(load * (1 + 1e-6)) >= 0
    assert lowest(load * (1 - 1e-3)) < 0
