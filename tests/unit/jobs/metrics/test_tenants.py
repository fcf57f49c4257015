"""The state of a tenant: a quota of 5 mutations a second, and so a burst of 55."""

import pytest

from jobs.metrics.counts import MutationCounts
from jobs.metrics.tenants import TenantMetrics
from quota.records.quota import Window
from tests.support.factories import decided


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


def test_a_quota_with_a_burst_fills_up_to_it():
    tenant = tenant_of(decided(60, burst=100.0))
    assert tenant.burst == 100
    assert [tenant.tokens(now) for now in (0, 12_000, 13_000)] == [40, 100, 100]


def test_a_refused_request_is_not_charged_and_counts_as_activity():
    tenant = tenant_of(BURST, decided(30, at=0, state=-5.0))
    assert (tenant.rate(0), tenant.requested.measure(0)) == (6, 9)
    assert (tenant.topics_admitted, tenant.topics_refused) == (1, 1)
    assert (tenant.mutations_admitted, tenant.mutations_refused) == (60, 30)


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
