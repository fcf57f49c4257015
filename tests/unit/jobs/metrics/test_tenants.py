"""The state of a tenant, with a quota of 5 mutations a second and so a burst of 55, and of all tenants."""

import msgspec
import pytest

from jobs.metrics.counts import MutationCounts
from jobs.metrics.tenants import TenantMetrics, TenantRegistry
from quota.records.quota import Window
from tests.support.factories import decided

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
