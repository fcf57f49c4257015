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


ONE = RateMetric(Window(num=1))
STEPS = [
    (KIP, [], {1234: 0}),
    # Kafka counts S - 1 whole windows and what has passed of the last: 560 by 99 s, then by 99.5, then none.
    (KIP, [(560, 50_000)], {50_000: 560 / 99, 50_500: 560 / 99.5, 149_999: 560 / 99.999, 150_000: 0}),
    # Began at 0, was charged last at 900: at 100,500 it counts, and so do its 100.5 s.
    (KIP, [(5, 0), (5, 900)], {100_500: 10 / 100.5}),
    # A single window has no time at its beginning and counts a millisecond.
    (ONE, [(2, 7000)], {7000: 2000, 7500: 4}),
    # Reading changes nothing.
    (KIP, [(560, 0)], {200_000: 0, 0: 560 / 99}),
]
"""A metric, its charges and their times, and the rate at each time [mutations/s]."""


@pytest.mark.parametrize(("metric", "charged", "rates"), STEPS)
def test_the_rate_as_kafka_measures_it(metric, charged, rates):
    for cost, at in charged:
        metric = metric.record(cost, at)
    assert {at: metric.measure(at) for at in rates} == rates
