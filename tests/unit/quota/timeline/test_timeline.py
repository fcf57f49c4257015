"""Quotas as of a time: the one in force, its clients, and since when."""

from quota.records.entity import QuotaEntity
from quota.records.levels import levels
from quota.records.quota_log import Quota
from quota.records.record import BEGINNING
from quota.timeline.change import QuotaChange
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
