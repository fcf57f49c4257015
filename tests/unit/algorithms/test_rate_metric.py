"""The metric `rate`; what Kafka's own class says stands beside each step (`test_conformance` asks it)."""

from quota.algorithms.bucket import Window
from quota.algorithms.kafka_rate import RateMetric

KIP = RateMetric(Window(num=100))


def test_nothing_charged_is_a_rate_of_nothing():
    assert KIP.measure(1234) == 0


def test_the_kips_burst_is_held_up_until_its_sample_is_over():
    """Kafka counts S - 1 whole windows and what has passed of the last: 560 by 99 s, then by 99.5, then none."""
    metric = KIP.record(560, 50_000)
    assert metric.measure(50_000) == 560 / 99
    assert metric.measure(50_500) == 560 / 99.5
    assert metric.measure(149_999) == 560 / 99.999
    assert metric.measure(150_000) == 0


def test_a_steady_rate_is_itself_once_all_windows_have_passed():
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
