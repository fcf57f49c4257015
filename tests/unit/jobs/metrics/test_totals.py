"""The totals of all answers; ADMITTED topics have no error, refused ones 89."""

import msgspec
import pytest
from msgspec.structs import replace

from jobs.metrics.totals import DecisionTotals, Latencies, MutationCounts, TenantMetrics, TenantRegistry
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


HOUR_MS = 3_600_000


def tenant_of(*decisions):
    tenant = TenantMetrics(decisions[0], Window())
    for decision in decisions:
        tenant.record(decision, MutationCounts.of(decision))
    return tenant


BURST = decided(60)
"""At 0: 55 - 60 = -5."""


def test_the_rate_is_kafkas_over_ten_windows_at_least():
    tenant = tenant_of(BURST)
    assert tenant.rate(0) == 60 / 10
    assert tenant.rate(10_500) == 60 / 10.5
    assert tenant.rate(11_000) == 0


def test_tokens_come_back_at_the_quota_up_to_the_burst():
    tenant = tenant_of(BURST)
    assert [tenant.tokens(now) for now in (0, 1000, 2000, 12_000, 13_000)] == [-5, 0, 5, 55, 55]


def test_a_refused_request_is_not_charged_and_counts_as_activity():
    tenant = tenant_of(BURST, decided(30, at=0, state=-5.0))
    assert (tenant.rate(0), tenant.requested.measure(0)) == (6, 9)
    assert (tenant.topics_admitted, tenant.topics_refused) == (1, 1)


def test_the_throttle_time_is_the_mean_of_the_last_minute():
    """Refused at 0 with K = -5 for a second, and at 0.5 s with -2.5: 750 ms on average."""
    tenant = tenant_of(BURST, decided(1, at=0, state=-5.0), decided(1, at=500, state=-2.5))
    assert tenant.throttle_ms(500) == 750
    assert tenant.throttle_ms(60_499) == 750
    assert tenant.throttle_ms(60_500) == 0


def test_a_throttle_of_the_request_quota_is_not_attributed_to_the_bucket():
    assert tenant_of(decided(1, state=-5.0, request_throttle_ms=1000)).throttle_ms(0) == 0
    assert tenant_of(decided(1, state=-5.0, request_throttle_ms=999)).throttle_ms(0) == 1000


@pytest.mark.parametrize(("now", "near"), [(0, True), (3199, True), (3201, False)])
def test_less_than_a_fifth_of_the_burst_is_near_the_limit(now, near):
    """11 of 55 are there again 3.2 s after -5."""
    assert tenant_of(BURST).is_near_limit(now) is near


def test_a_late_copy_of_an_older_decision_does_not_turn_time_back():
    tenant = tenant_of(decided(60, at=1000), decided(60, at=0, state=0.0))
    assert tenant.tokens(2000) == 0


def test_without_a_quota_no_tenant_is_near_its_limit():
    tenant = tenant_of(decided(60, rate=None))
    assert not tenant.is_limited
    assert (tenant.burst, tenant.tokens(0), tenant.is_near_limit(0)) == (0, 0, False)


def registry_of(most, *decisions):
    tenants = TenantRegistry(Window(), most)
    for decision in decisions:
        tenants.record(decision, MutationCounts.of(decision))
    return tenants


def of(user, partitions=1, at=0, **tags):
    """Return a decision on a user's request for so many partitions."""
    return msgspec.structs.replace(decided(partitions, at=at), user_tag=user, **tags)


def busiest(tenants, now=0):
    return [tenant.last.user_tag for tenant in tenants.busiest(now)]


def test_decisions_of_the_same_tags_belong_to_one_tenant():
    tenants = registry_of(10, of("alice"), of("bob"), of("alice"))
    assert [tenant.topics_admitted for tenant in tenants.busiest(0)] == [2, 1]
    assert len(registry_of(10, of("", more_tags={"group": "a"}), of("", more_tags={"group": "b"}))) == 2


def test_the_busiest_come_first_and_the_latest_among_equals():
    tenants = registry_of(10, of("small", 1), of("large", 9), of("old", 4), of("new", 4, at=1))
    assert busiest(tenants, 1) == ["large", "new", "old", "small"]
    assert busiest(tenants, 20_000)[0] == "new"  # there were no requests in the last 11 s


def test_tenants_without_a_request_for_an_hour_or_without_a_quota_have_no_series():
    tenants = registry_of(10, of("alice"), of("bob", at=1), decided(1, rate=None))
    assert (len(tenants), busiest(tenants, HOUR_MS)) == (3, ["bob"])


def test_invented_names_displace_the_least_busy_and_are_bounded():
    """Four are stored; at the fifth the two busiest of them stay, and so on."""
    tenants = registry_of(2, of("a", 4), of("b", 3), of("c", 2), of("d", 1), of("e", 1))
    assert (busiest(tenants), tenants.forgotten) == (["a", "b", "e"], 2)
    for number in range(1000):
        decision = of(f"made up {number}")
        tenants.record(decision, MutationCounts.of(decision))
        assert len(tenants) <= 4
    assert busiest(tenants)[:2] == ["a", "b"]


def test_expired_tenants_are_displaced_first_and_do_not_count_as_forgotten():
    tenants = registry_of(1, of("a", 4), of("b", 3), of("c", 2, at=HOUR_MS))
    assert (len(tenants), busiest(tenants, HOUR_MS), tenants.forgotten) == (1, ["c"], 0)
