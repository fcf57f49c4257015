"""Charges spread over earlier windows; each step has its windows, oldest first."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quota.algorithms.token_bucket import TokenBucket
from quota.records.quota import Window
from quota.whatif.spread_windows import NO_SPREAD, SpreadWindows
from tests.support.factories import resolved

KIP = Window(num=100)
FIVE = Window(num=5)
windows = st.sampled_from([Window(1, 1), Window(2, 1), Window(11, 1), Window(10, 2)])
charges = st.lists(st.tuples(st.integers(0, 30_000), st.integers(0, 300)), max_size=40)
rates = st.floats(min_value=1e-3, max_value=1e3)


def of(*charges, window, rate):
    spread = NO_SPREAD
    for at, cost in charges:
        spread = spread.add(cost, at, window, rate)
    return spread


def test_the_kips_burst_fills_99_windows_with_5_and_one_with_65():
    """560 at Q = 5, S = 100: the average is still 5.6, and 12 windows later it is 5."""
    spread = of((1_000_000, 560), window=KIP, rate=5)
    assert spread.levels == (5.0,) * 99 + (65.0,)
    assert spread.total / 100 == 5.6
    assert spread.at(1_011_999, KIP).total == 560 - 11 * 5
    assert spread.at(1_012_000, KIP).total / 100 == 5.0


def test_a_small_charge_goes_to_the_oldest_windows_which_expire_first():
    spread = of((4000, 12), window=FIVE, rate=5)
    assert spread == SpreadWindows(0, (5, 5, 2))
    assert [spread.at(4000 + later, FIVE).levels for later in (999, 1000, 2000, 3000)] == [
        (5, 5, 2),
        (5, 2),
        (2,),
        (),
    ]


def test_a_steady_rate_leaves_nearly_empty_windows():
    """5 each second at Q = 5: they go to the window that falls out next. For this the KIP gave it up."""
    spread = of(*((second * 1000, 5) for second in range(300)), window=KIP, rate=5)
    assert spread.total / 100 == 0.05


STEPS = {
    # Four windows of 5 and one of 10; a second later the window before has capacity for 5, the current has 1.
    "an excess stays until its window expires": ([(4000, 30), (5000, 6)], 1000, (5, 5, 5, 10, 6)),
    "later it is in an earlier window": ([(4000, 30), (6000, 6)], 2000, (5, 5, 10, 5, 1)),
    "a late charge counts as of the newest window": ([(4000, 30), (1000, 2)], 0, (5, 5, 5, 5, 12)),
    "after all windows a charge starts new ones": ([(4000, 30), (9300, 2)], 5300, (2,)),
}


@pytest.mark.parametrize("step", STEPS)
def test_charges_at_five_a_second_in_five_windows(step):
    given, begins_at, levels = STEPS[step]
    assert of(*given, window=FIVE, rate=5) == SpreadWindows(begins_at, levels)


@pytest.mark.parametrize(("rate", "levels"), [(7, (7, 7, 4)), (3, (5, 5, 3, 3, 2))])
def test_a_changed_quota_changes_the_capacity_and_takes_nothing_out_of_a_window(rate, levels):
    """From 12 charged at 5 a second."""
    assert of((4000, 12), window=FIVE, rate=5).add(6, 4000, FIVE, rate).levels == levels


@given(charges, windows, rates)
def test_spreading_conserves_what_is_charged(charges, window, rate):
    """The sum contains the earlier charges that still count, and the new one."""
    spread = NO_SPREAD
    for at, cost in charges:
        before = spread.at(at, window).total
        spread = spread.add(cost, at, window, rate)
        assert spread.total == pytest.approx(before + cost, rel=1e-12)


@given(charges, windows, rates)
def test_no_earlier_window_is_filled_above_the_quota(charges, window, rate):
    """It contains at most Q * W, or its earlier charge if that was higher."""
    spread = NO_SPREAD
    for at, cost in charges:
        before = spread.at(at, window).levels
        spread = spread.add(cost, at, window, rate)
        assert len(spread.levels) <= window.num
        for place, level in enumerate(spread.levels[: window.num - 1]):
            held = before[place] if place < len(before) else 0
            assert held <= level <= max(held, rate * window.size_seconds * (1 + 1e-12))


@given(st.integers(1, 10**6), charges, windows, rates)
def test_it_takes_the_throttle_time_and_at_most_one_window_more(cost, charges, window, rate):
    """With any earlier charges it takes (R - Q) / Q * S * W, and W."""
    spread = of(*sorted(charges), (30_000, cost), window=window, rate=rate)
    allowed = rate * window.num * window.size_seconds
    wait_ms = max(0, spread.total - allowed) / rate * 1000
    later = spread.at(30_000 + int(wait_ms) + 1 + window.size_ms, window)
    assert later.total <= allowed * (1 + 1e-9)


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 30)), max_size=40), st.sampled_from([1, 5, 7]))
def test_up_to_the_first_overdraft_it_equals_the_token_bucket_at_the_ends_of_windows(charges, rate):
    """The rest of Q * S * W equals the bucket's tokens, which is why the KIP says that a Rate can behave like one."""
    bucket, state, spread = TokenBucket(Window()), None, NO_SPREAD
    for second, cost in sorted(charges):
        state, admission = bucket.admit(state, resolved(cost, at=second * 1000, rate=float(rate)))
        spread = spread.add(cost, second * 1000, bucket.window, rate)
        if admission.tokens < 0:
            return
        assert 11 * rate - spread.total == admission.tokens
