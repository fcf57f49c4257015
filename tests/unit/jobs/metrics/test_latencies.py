"""How long decisions took."""

from jobs.metrics.totals import Latencies


def test_each_counts_in_all_bounds_that_it_is_not_above():
    latencies = Latencies()
    for latency_ms in (50, 51, 200, 60_000, 60_001):
        latencies.add(latency_ms)
    counts = dict(latencies.cumulative())
    assert [counts[bound] for bound in (50, 100, 200, 30_000, 60_000, float("inf"))] == [1, 2, 3, 3, 4, 5]
    assert latencies.total_ms == 50 + 51 + 200 + 60_000 + 60_001


def test_a_clock_that_is_behind_makes_none_shorter_than_nothing():
    latencies = Latencies()
    latencies.add(-7)
    assert (latencies.total_ms, dict(latencies.cumulative())[50]) == (0, 1)
