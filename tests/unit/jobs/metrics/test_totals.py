"""The totals of all answers; ADMITTED topics have no error, refused ones 89."""

import pytest
from msgspec.structs import replace

from jobs.metrics.counts import MutationCounts
from jobs.metrics.totals import DecisionTotals, Latencies
from quota.records.dead_letter import DeadLetter
from quota.records.decision import Outcome, Repeat, Shadow
from quota.records.quota import Window
from quota.records.record import Source
from tests.support.factories import decided


@pytest.mark.parametrize(
    ("decision", "counts"),
    [
        # 55 at first: 60 leave -5, so 7 are refused
        (decided(60, 7), MutationCounts(1, 1, 60, 7, charged=60)),
        (decided(60, 7, validate_only=True), MutationCounts()),
        # a repeat does not count again
        (replace(decided(5, 7, 9), repeats=Repeat("requests-0-1", topics=2)), MutationCounts(1, 0, 9, 0, charged=9)),
        # a quota in shadow admits everything, and charges what it would have admitted
        (
            replace(decided(5, 7, 9), shadow=Shadow(Outcome.PARTIAL, [0, 89, 89], 2400, 2400)),
            MutationCounts(3, 0, 21, 0, charged=5, shadow_refused=2),
        ),
        # without a quota nothing is charged
        (decided(60, 7, rate=None), MutationCounts(2, 0, 67, 0, charged=0)),
    ],
)
def test_effective_topics_and_their_partitions_are_counted(decision, counts):
    assert MutationCounts.of(decision) == counts


def test_all_answers_are_summed_up():
    """60 of 55 are admitted, 20 of 10 too and then 40 are not; 7 and 8 in debt are refused."""
    account = DecisionTotals(Window(), 10)
    for decision in (
        decided(60, at=0),
        decided(20, 40, at=3000, state=10.0),
        decided(7, 8, at=4000, state=-45.0),
        replace(decided(5, at=5000), shadow=Shadow(Outcome.REJECTED, [89], 1000, 1000)),
        replace(decided(5, at=6000), repeats=Repeat("requests-0-3", 1)),
    ):
        account.record(decision, at=decision.timestamp + 300)
    letter = DeadLetter(error="value: not JSON", value="?", timestamp=7000, source=Source("requests", 0, 9))
    account.record(letter, at=7001)

    assert account.decisions == {Outcome.ADMITTED: 3, Outcome.PARTIAL: 1, Outcome.REJECTED: 1}
    assert account.counts == MutationCounts(3, 3, 85, 55, charged=80, shadow_refused=1)
    assert (account.repeats, account.dead_letters) == (1, 1)
    assert account.latencies.total_ms == 5 * 300


def test_each_latency_counts_in_all_bounds_that_it_does_not_exceed_and_a_negative_one_as_zero():
    latencies = Latencies()
    for latency_ms in (50, 51, 200, 60_000, 60_001, -7):
        latencies.add(latency_ms)
    counts = dict(latencies.cumulative())
    assert [counts[bound] for bound in (50, 100, 200, 30_000, 60_000, float("inf"))] == [2, 3, 4, 4, 5, 6]
    assert latencies.total_ms == 50 + 51 + 200 + 60_000 + 60_001


def test_a_decision_dated_ahead_counts_from_its_receipt():
    """One of ten minutes' decisions is dated an hour ahead; the rate is that of the last 11 s, and ends with them."""
    start, account = 6_400_000, DecisionTotals(Window(), 10)
    for second in range(1, 601):
        wrong = replace(decided(5), timestamp=start + 3_600_000, retry_at=start + 3_600_000)
        decision = wrong if second == 300 else decided(1, at=start + 1000 * second)
        account.record(decision, start + 1000 * second)
    (tenant,) = account.tenants.busiest(start + 600_000)
    assert tenant.rate(start + 600_000) == pytest.approx(1.1, abs=0.1)
    assert tenant.tokens(start + 605_000) == 55  # 54 after one mutation
    assert tenant.rate(start + 620_000) == 0
    assert account.tenants.busiest(start + 600_000 + 3_600_000) == []
