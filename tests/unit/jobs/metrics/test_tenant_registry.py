"""How all tenants stand, as far as there is room."""

import msgspec

from jobs.metrics.counts import MutationCounts
from jobs.metrics.tenants import TenantRegistry
from quota.records.quota import Window
from tests.support.factories import decided

HOUR_MS = 3_600_000


def heard(most, *decisions):
    tenants = TenantRegistry(Window(), most)
    for decision in decisions:
        tenants.record(decision, MutationCounts.of(decision))
    return tenants


def of(user, partitions=1, at=0, **tags):
    """A decision of a user's, who asks for so many partitions."""
    return msgspec.structs.replace(decided(partitions, at=at), user_tag=user, **tags)


def names(standings):
    return [each.last.user_tag for each in standings]


def test_decisions_of_the_same_tags_are_one_tenants():
    tenants = heard(10, of("alice"), of("bob"), of("alice"))
    assert [each.topics_admitted for each in tenants.known] == [2, 1]


def test_tags_of_a_callback_tell_tenants_apart():
    tenants = heard(10, of("", more_tags={"group": "a"}), of("", more_tags={"group": "b"}))
    assert len(tenants.known) == 2


def test_the_busiest_come_first_and_of_equals_the_latest():
    tenants = heard(10, of("small", 1), of("large", 9), of("old", 4), of("new", 4, at=1))
    assert names(tenants.busiest(1)) == ["large", "new", "old", "small"]
    assert names(tenants.busiest(20_000))[0] == "new"  # nobody has asked for anything in the last 11 s


def test_who_was_not_heard_of_for_an_hour_is_gone():
    tenants = heard(10, of("alice"), of("bob", at=1))
    assert names(tenants.busiest(HOUR_MS)) == ["bob"]


def test_who_has_no_quota_has_no_series():
    tenants = heard(10, decided(1, rate=None))
    assert (len(tenants.known), tenants.busiest(0)) == (1, [])


def test_made_up_names_push_out_the_least_busy_and_are_bounded():
    """Four are kept; with the fifth the two busiest of them stay, and so on with each third."""
    tenants = heard(2, of("a", 4), of("b", 3), of("c", 2), of("d", 1), of("e", 1))
    assert (names(tenants.known), tenants.forgotten) == (["a", "b", "e"], 2)
    for number in range(1000):
        decision = of(f"made up {number}")
        tenants.record(decision, MutationCounts.of(decision))
        assert len(tenants.known) <= 4
    assert names(tenants.busiest(0)[:2]) == ["a", "b"]


def test_who_is_gone_makes_room_first_and_was_not_forgotten():
    tenants = heard(1, of("a", 4), of("b", 3), of("c", 2, at=HOUR_MS))
    assert (names(tenants.known), tenants.forgotten) == (["c"], 0)
