"""kafka-configs.sh's long form of an entity, and KIP-546's filter."""

import pytest
from msgspec import UNSET

from jobs.cli.quotas.kafka_configs import EntityFilterOptions, to_short_form
from quota.errors import BadInput
from quota.records.entity import QuotaEntity
from tests.support.programs import run


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("--user a", "--user a"),
        ("--entity-type users --entity-name a", "--user=a"),
        ("--entity-type=users --entity-default", "--user-defaults"),
        (
            "--entity-type users --entity-default --entity-type clients --entity-name -x --output json",
            "--output json --user-defaults --client=-x",
        ),
        ("--entity-type clients --entity-type users --entity-name c --entity-name u", "--client=c --user=u"),
    ],
)
def test_the_long_form_of_an_entity_is_understood(given, expected):
    assert to_short_form(given.split()) == expected.split()


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ("--entity-type users", "needs an --entity-name"),
        ("--entity-type users --entity-name a --entity-type users --entity-name b", "users is given twice"),
        ("--entity-type topics --entity-name a", "--entity-type topics: expected users or clients"),
        ("--entity-type", "--entity-type needs a value"),
    ],
)
def test_an_inconsistent_long_form_is_rejected(given, error):
    with pytest.raises(BadInput, match=error):
        to_short_form(given.split())


ENTITIES = {
    "alice": QuotaEntity("alice"),
    "alice app": QuotaEntity("alice", "app"),
    "default": QuotaEntity(None),
    "default app": QuotaEntity(None, "app"),
    "app": QuotaEntity(UNSET, "app"),
}


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"user": "alice", "strict": True}, ["alice"]),
        ({"user_defaults": True, "client": "app"}, ["default app"]),
        ({"any_user": True}, ["alice", "alice app", "default", "default app"]),
        ({"any_user": True, "any_client": True}, ["alice app", "default app"]),
    ],
)
def test_a_filter_matches_entities_by_their_parts(options, expected):
    matches = EntityFilterOptions(**options).parse_filter()
    assert [name for name, entity in ENTITIES.items() if matches(entity)] == expected


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"strict": True}, "--strict needs a filter"),
        ({"any_user": True, "user": "a"}, "--any-user excludes --user and --user-defaults"),
        ({"user": "a", "user_defaults": True}, "--user and --user-defaults are mutually exclusive"),
    ],
)
def test_an_inconsistent_filter_is_rejected(options, error):
    with pytest.raises(BadInput, match=error):
        EntityFilterOptions(**options).parse_filter()


def test_the_verb_of_kafka_configs_is_taken_where_it_is_the_command():
    done = run("quotas", "alter", "--alter", "--entity-type", "users", "--entity-name", "a")
    assert (
        done.stderr
        == "mutation-quota: give --add-config controller_mutation_rate=X, or --delete-config controller_mutation_rate\n"
    )
    assert "No such option" in run("quotas", "alter", "--describe").stderr
