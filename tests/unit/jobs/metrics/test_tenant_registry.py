"""The state of all tenants, up to a maximum."""

import msgspec

from jobs.metrics.counts import MutationCounts
from jobs.metrics.tenants import TenantRegistry
from quota.records.quota import Window
from tests.support.factories import decided

HOUR_MS = 3_600_000


def registry_of(most, *decisions):
    tenants = TenantRegistry(Window(), most)
    for decision in decisions:
        tenants.record(decision, MutationCounts.of(decision))
    return tenants


def of(user, partitions=1, at=0, **tags):
    """Return a decision on a user's request for so many partitions."""
    return msgspec.structs.replace(decided(partitions, at=at), user_tag=user, **tags)


def names(standings):
    return [each.last.user_tag for each in standings]


def test_decisions_of_the_same_tags_belong_to_one_tenant():
    tenants = registry_of(10, of("alice"), of("bob"), of("alice"))
    assert [each.topics_admitted for each in tenants.known] == [2, 1]


def test_tags_of_a_callback_distinguish_tenants():
    tenants = registry_of(10, of("", more_tags={"group": "a"}), of("", more_tags={"group": "b"}))
    assert len(tenants.known) == 2


def test_the_busiest_come_first_and_the_latest_among_equals():
    tenants = registry_of(10, of("small", 1), of("large", 9), of("old", 4), of("new", 4, at=1))
    assert names(tenants.busiest(1)) == ["large", "new", "old", "small"]
    assert names(tenants.busiest(20_000))[0] == "new"  # there were no requests in the last 11 s


def test_a_tenant_without_requests_for_an_hour_is_removed():
    tenants = registry_of(10, of("alice"), of("bob", at=1))
    assert names(tenants.busiest(HOUR_MS)) == ["bob"]


def test_a_tenant_without_a_quota_has_no_series():
    tenants = registry_of(10, decided(1, rate=None))
    assert (len(tenants.known), tenants.busiest(0)) == (1, [])


def test_invented_names_displace_the_least_busy_and_are_bounded():
    """Four are stored; at the fifth the two busiest of them stay, and so on."""
    tenants = registry_of(2, of("a", 4), of("b", 3), of("c", 2), of("d", 1), of("e", 1))
    assert (names(tenants.known), tenants.forgotten) == (["a", "b", "e"], 2)
    for number in range(1000):
        decision = of(f"made up {number}")
        tenants.record(decision, MutationCounts.of(decision))
        assert len(tenants.known) <= 4
    assert names(tenants.busiest(0)[:2]) == ["a", "b"]


def test_expired_tenants_are_displaced_first_and_do_not_count_as_forgotten():
    tenants = registry_of(1, of("a", 4), of("b", 3), of("c", 2, at=HOUR_MS))
    assert (names(tenants.known), tenants.forgotten) == (["c"], 0)
