"""Charges in samples, as Kafka keeps them; what is kept stands beside each step."""

from hypothesis import given
from hypothesis import strategies as st

from quota.algorithms.bucket import Window
from quota.algorithms.kafka_rate import NO_SAMPLES, Sample, Samples

TEN_OF_TWO = Window(num=10, size_seconds=2)
charges = st.lists(st.tuples(st.integers(0, 60_000), st.integers(0, 10**12)), max_size=80)


def of(*charges, window):
    samples = NO_SAMPLES
    for at, cost in charges:
        samples = samples.record(cost, at, window)
    return samples


def test_a_sample_begins_with_a_charge_and_takes_what_comes_within_the_window():
    samples = of((700, 3), (2699, 4), (2700, 5), window=TEN_OF_TWO)
    assert samples == Samples((Sample(700, 2699, 7), Sample(2700, 2700, 5)))


def test_a_sample_counts_in_full_until_all_windows_have_passed_since_its_last_charge():
    samples = of((0, 3), (1500, 4), window=TEN_OF_TWO)
    assert samples.at(21_499, TEN_OF_TWO).total == 7
    assert samples.at(21_500, TEN_OF_TWO).total == 0


def test_a_late_charge_goes_into_the_newest_sample():
    samples = of((10_000, 3), (1000, 4), window=TEN_OF_TWO)
    assert samples == Samples((Sample(10_000, 10_000, 7),))


def test_an_earlier_time_brings_nothing_back_and_removes_nothing():
    samples = of((0, 3), (20_000, 4), window=TEN_OF_TWO)
    assert samples.at(5000, TEN_OF_TWO).total == 4


@given(charges, st.sampled_from([Window(1, 1), Window(11, 1), Window(10, 2)]))
def test_there_are_never_more_samples_than_windows_and_one(charges, window):
    """Whatever is charged when, and however the clock steps."""
    assert len(of(*charges, window=window).kept) <= window.num + 1


@given(charges)
def test_nothing_is_lost_while_it_counts(charges):
    """All of these lie within 60 s: with as many windows and more, the sum is what was charged."""
    assert of(*charges, window=Window(num=61)).total == sum(cost for _, cost in charges)
