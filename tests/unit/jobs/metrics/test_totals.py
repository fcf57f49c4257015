"""The totals of all answers, and the histogram of latencies."""

import msgspec

from jobs.metrics.totals import DecisionTotals, Latencies
from quota.records.dead_letter import DeadLetter
from quota.records.decision import Outcome, Repeat, Shadow
from quota.records.quota import Window
from quota.records.record import Source
from tests.support.factories import decided


def test_all_answers_are_summed_up():
    """60 of 55 are admitted, 20 of 10 too and then 40 are not; 7 and 8 in debt are refused."""
    account = DecisionTotals(Window(), 10)
    shadow = Shadow(Outcome.REJECTED, [89], 1000, 1000)
    for decision in (
        decided(60, at=0),
        decided(20, 40, at=3000, state=10.0),
        decided(7, 8, at=4000, state=-45.0),
        msgspec.structs.replace(decided(5, at=5000), shadow=shadow),
        msgspec.structs.replace(decided(5, at=6000), repeats=Repeat("requests-0-3", 1)),
    ):
        account.record(decision, at=decision.timestamp + 300)
    account.record(
        DeadLetter(error="value: not JSON", value="?", timestamp=7000, source=Source("requests", 0, 9)), at=7001
    )

    assert account.decisions == {Outcome.ADMITTED: 3, Outcome.PARTIAL: 1, Outcome.REJECTED: 1}
    assert (account.topics_admitted, account.topics_refused) == (3, 3)
    assert (account.mutations_admitted, account.mutations_refused) == (85, 55)
    assert (account.shadow_refused, account.repeats, account.dead_letters) == (1, 1, 1)
    assert account.latencies.total_ms == 5 * 300


def test_each_value_counts_in_all_bounds_that_it_does_not_exceed():
    latencies = Latencies()
    for latency_ms in (50, 51, 200, 60_000, 60_001):
        latencies.add(latency_ms)
    counts = dict(latencies.cumulative())
    assert [counts[bound] for bound in (50, 100, 200, 30_000, 60_000, float("inf"))] == [1, 2, 3, 3, 4, 5]
    assert latencies.total_ms == 50 + 51 + 200 + 60_000 + 60_001


def test_a_clock_that_is_behind_gives_no_negative_duration():
    latencies = Latencies()
    latencies.add(-7)
    assert (latencies.total_ms, dict(latencies.cumulative())[50]) == (0, 1)
