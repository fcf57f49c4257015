"""Quotas as of a time: the one in force, its clients, and since when."""

import pytest

from quota.records.entity import QuotaEntity
from quota.records.levels import levels
from quota.records.quota_log import Quota
from quota.records.record import BEGINNING
from quota.timeline.change import QuotaCancellation, QuotaChange
from tests.support.factories import timeline

ALICE, DEFAULT_USER = QuotaEntity("alice"), QuotaEntity(None)
ALICE_APP, ALICE_ANY = QuotaEntity("alice", "app"), QuotaEntity("alice", None)


def resolve(quotas, at, user="alice", client="app"):
    resolution = quotas.resolve(user, client, at)
    return (resolution.limit.quota.rate, resolution.limit.since, resolution.tags[:2]) if resolution.limit else None


def test_the_most_specific_level_wins_and_determines_the_bucket():
    """Removing the winner repeatedly goes down all eight levels."""
    expected_tags = (
        [("alice", "app")] * 2 + [("alice", "")] + [("alice", "app")] * 2 + [("alice", "")] + [("", "app")] * 2
    )
    entities = [entity for entity, _ in levels("alice", "app")]
    for winner, tags in enumerate(expected_tags):
        quotas = timeline(
            *[(entity, 1.0 + level, BEGINNING) for level, entity in enumerate(entities) if level >= winner]
        )
        resolution = quotas.resolve("alice", "app", 0)
        assert (resolution.limit.quota.rate, resolution.entity, resolution.tags[:2]) == (
            1.0 + winner,
            entities[winner],
            tags,
        )


def test_a_change_takes_effect_in_its_own_millisecond():
    quotas = timeline((ALICE, 5.0, 100), (ALICE, 7.0, 200))
    assert [resolve(quotas, at) for at in (99, 100, 199, 200)] == [
        None,
        (5.0, 100, ("alice", "")),
        (5.0, 100, ("alice", "")),
        (7.0, 200, ("alice", "")),
    ]


def test_the_later_record_of_two_changes_at_one_time_wins():
    assert resolve(timeline((ALICE, 5.0, 100), (ALICE, 7.0, 100)), 100) == (7.0, 100, ("alice", ""))


def test_a_change_read_late_takes_effect_at_its_time():
    """The log is read on while requests are decided; earlier lookups must not be reused."""
    quotas = timeline((ALICE, 5.0, 100))
    assert resolve(quotas, 300) == (5.0, 100, ("alice", ""))
    quotas.add(QuotaChange(ALICE, Quota(7.0), 200))
    assert resolve(quotas, 300) == (7.0, 200, ("alice", ""))
    assert resolve(quotas, 150) == (5.0, 100, ("alice", ""))


def test_setting_the_same_quota_again_is_not_a_change():
    assert resolve(timeline((ALICE, 5.0, 100), (ALICE, 5.0, 200)), 300) == (5.0, 100, ("alice", ""))


def test_an_uncovered_quota_is_in_force_for_its_bucket_since_then():
    """Both levels have the bucket (alice, app): its rate is 7 only since the quota above it was removed."""
    quotas = timeline((ALICE_ANY, 7.0, 100), (ALICE_APP, 5.0, 200), (ALICE_APP, None, 300))
    assert resolve(quotas, 250) == (5.0, 200, ("alice", "app"))
    assert resolve(quotas, 350) == (7.0, 300, ("alice", "app"))


def test_configured_quotas_are_listed_as_of_a_time():
    quotas = timeline((DEFAULT_USER, 1.0, 100), (ALICE, 5.0, 100), (ALICE, None, 200))
    assert [(change.entity, change.quota.rate, change.moment) for change in quotas.configured(150)] == [
        (ALICE, 5.0, 100),
        (DEFAULT_USER, 1.0, 100),
    ]
    assert [change.entity for change in quotas.configured(200)] == [DEFAULT_USER]


def changed(rate, *configs, **options):
    quota = None if rate is None else Quota(rate, **options)
    return QuotaChange(ALICE, quota, 100, configs)


BURST = changed(5.0, "controller_mutation_burst", burst=9.0)
DEBT = changed(5.0, "max_debt_ms", max_debt_ms=7)
RATE = changed(6.0, "controller_mutation_rate")
GONE = changed(None, "controller_mutation_rate")
COPY = changed(5.0, burst=9.0)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ([BURST, DEBT, RATE], Quota(6.0, 9.0, 7)),
        ([BURST, DEBT, COPY], Quota(5.0, 9.0, 7)),
        ([QuotaChange(ALICE, Quota(50.0, None, 3), 90), BURST], Quota(50.0, 9.0, 3)),
        ([BURST, QuotaChange(ALICE, Quota(7.0), 100)], Quota(7.0)),
        ([BURST, GONE], None),
        ([GONE, DEBT], None),
        ([GONE, RATE], Quota(6.0)),
    ],
)
def test_a_change_of_a_part_keeps_the_other_parts(changes, expected):
    """The changes start from 5; no author has seen the others' records."""
    quotas = timeline((ALICE, 5.0, 0))
    for change in changes:
        quotas.add(change)
    assert quotas.latest(ALICE, 100).quota == expected


def test_a_scheduled_change_of_a_part_keeps_what_changed_since_it_was_written():
    """From 50 on the rate was to be 9, which is cancelled; at 100 the burst becomes 9, whatever the rate is then."""
    quotas = timeline((ALICE, 5.0, 0), (ALICE, 9.0, 50))
    quotas.add(QuotaChange(ALICE, Quota(9.0, 9.0), 100, ("controller_mutation_burst",)))
    quotas.add(QuotaCancellation(ALICE, 50))
    assert quotas.latest(ALICE, 100).quota == Quota(5.0, 9.0)
    quotas.add(QuotaChange(ALICE, Quota(20.0), 10, ("controller_mutation_rate",)))
    assert [quotas.latest(ALICE, at).quota for at in (10, 99, 100)] == [Quota(20.0), Quota(20.0), Quota(20.0, 9.0)]
