"""What a comparison with Kafka's own class does not show of the metric `rate` and its samples.

`tests/integration/evidence/test_conformance.py` compares the two after each of ten thousand charges.
"""

from itertools import accumulate

from hypothesis import example, given
from hypothesis import strategies as st

from quota.algorithms.kafka_rate import NO_SAMPLES, Sample, Samples
from quota.records.quota_log import Window

TEN_OF_TWO = Window(num=10, size_seconds=2)
steps = st.lists(st.tuples(st.integers(-2000, 9000), st.integers(0, 10**12)), min_size=20, max_size=80)
"""The times since the previous charge [ms], and charges."""
LATE = [(0, 1), (999, 1), (1, 1), *[(1000, 1)] * 17]
"""The first sample is charged at its end, so that it still counts while as many follow as there are windows."""


def of(*charges, window):
    samples = NO_SAMPLES
    for at, cost in charges:
        samples = samples.record(cost, at, window)
    return samples


def test_a_late_charge_goes_into_the_newest_sample_and_an_earlier_time_changes_nothing():
    """Kafka's class, with which the metric is compared, never meets an earlier time."""
    samples = of((10_000, 3), (1000, 4), window=TEN_OF_TWO)
    assert samples == Samples((Sample(10_000, 10_000, 7),))
    samples = of((0, 3), (20_000, 4), window=TEN_OF_TWO)
    assert samples.at(5000, TEN_OF_TWO).total == 4


@example(LATE, Window(11, 1))
@given(steps, st.sampled_from([Window(1, 1), Window(11, 1), Window(10, 2)]))
def test_there_is_at_most_one_sample_more_than_windows(steps, window):
    """This is true for charges at any time, and any steps of the clock."""
    times = accumulate(step for step, _ in steps)
    charges = zip(times, (cost for _, cost in steps), strict=True)
    assert len(of(*charges, window=window).items) <= window.num + 1
