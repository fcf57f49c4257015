"""Charges in samples as in Kafka, with the samples at each step; and their metric `rate`.

The expected rates are those of Kafka's own class (`test_conformance` compares the two).
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quota.algorithms.kafka_rate import NO_SAMPLES, RateMetric, Sample, Samples
from quota.records.quota import Window

KIP = RateMetric(Window(num=100))
TEN_OF_TWO = Window(num=10, size_seconds=2)
charges = st.lists(st.tuples(st.integers(0, 60_000), st.integers(0, 10**12)), max_size=80)


def of(*charges, window):
    samples = NO_SAMPLES
    for at, cost in charges:
        samples = samples.record(cost, at, window)
    return samples


@pytest.mark.parametrize(
    ("charged", "samples"),
    [
        ([(700, 3), (2699, 4), (2700, 5)], [Sample(700, 2699, 7), Sample(2700, 2700, 5)]),  # within two seconds
        ([(10_000, 3), (1000, 4)], [Sample(10_000, 10_000, 7)]),  # a late charge goes into the newest sample
    ],
)
def test_a_sample_begins_with_a_charge_and_adds_those_within_the_window(charged, samples):
    assert of(*charged, window=TEN_OF_TWO) == Samples(tuple(samples))


def test_a_sample_counts_in_full_until_all_windows_have_passed_since_its_last_charge():
    """An earlier time restores nothing and removes nothing."""
    samples = of((0, 3), (1500, 4), window=TEN_OF_TWO)
    assert [samples.at(now, TEN_OF_TWO).total for now in (21_499, 21_500)] == [7, 0]
    samples = of((0, 3), (20_000, 4), window=TEN_OF_TWO)
    assert samples.at(5000, TEN_OF_TWO).total == 4


@given(charges, st.sampled_from([Window(1, 1), Window(11, 1), Window(10, 2)]))
def test_there_is_at_most_one_sample_more_than_windows(charges, window):
    """This is true for charges at any time, and any steps of the clock."""
    assert len(of(*charges, window=window).items) <= window.num + 1


@given(charges)
def test_nothing_is_lost_while_it_counts(charges):
    """All of these lie within 60 s: with as many windows and more, the sum is what was charged."""
    assert of(*charges, window=Window(num=61)).total == sum(cost for _, cost in charges)


def test_without_charges_the_rate_is_zero():
    assert KIP.measure(1234) == 0


def test_the_kips_burst_is_throttled_until_its_sample_has_expired():
    """Kafka counts S - 1 whole windows and what has passed of the last: 560 by 99 s, then by 99.5, then none."""
    metric = KIP.record(560, 50_000)
    assert metric.measure(50_000) == 560 / 99
    assert metric.measure(50_500) == 560 / 99.5
    assert metric.measure(149_999) == 560 / 99.999
    assert metric.measure(150_000) == 0


def test_a_steady_rate_is_measured_exactly_once_all_windows_have_passed():
    metric = KIP
    for second in range(500):
        metric = metric.record(5, second * 1000)
    assert metric.measure(500_000) == 99 * 5 / 99


def test_a_sample_that_overlaps_the_oldest_window_counts_with_its_time():
    """Began at 0, was charged last at 900: at 100,500 it counts, and so do its 100.5 s."""
    metric = KIP.record(5, 0).record(5, 900)
    assert metric.measure(100_500) == 10 / 100.5


def test_reading_changes_nothing():
    metric = KIP.record(560, 0)
    metric.measure(200_000)
    assert metric.measure(0) == 560 / 99


def test_a_single_window_has_no_time_at_its_beginning_and_counts_a_millisecond():
    metric = RateMetric(Window(num=1)).record(2, 7000)
    assert metric.measure(7000) == 2000
    assert metric.measure(7500) == 4
