"""Entities, the eight levels, and the identity of buckets."""

import json

from hypothesis import given
from hypothesis import strategies as st

from quota.records.entity import QuotaEntity, Tags
from quota.timeline.resolution import levels

names = st.text(min_size=1)


def test_the_levels_from_the_most_to_the_least_specific():
    assert [(json.loads(entity.key), tags[:2]) for entity, tags in levels("alice", "app")] == [
        ({"user": "alice", "client-id": "app"}, ("alice", "app")),
        ({"user": "alice", "client-id": None}, ("alice", "app")),
        ({"user": "alice"}, ("alice", "")),
        ({"user": None, "client-id": "app"}, ("alice", "app")),
        ({"user": None, "client-id": None}, ("alice", "app")),
        ({"user": None}, ("alice", "")),
        ({"client-id": "app"}, ("", "app")),
        ({"client-id": None}, ("", "app")),
    ]


@given(names, names, names, names)
def test_different_tags_are_different_buckets(user, client, other_user, other_client):
    same = (user, client) == (other_user, other_client)
    assert (Tags(user, client).key == Tags(other_user, other_client).key) == same
    assert Tags(user, "").key != Tags("", user).key


def test_an_entity_reads_as_in_kafkas_tools():
    assert str(QuotaEntity("alice", None)) == "user-principal 'alice', the default client-id"


def test_a_name_cannot_control_an_operators_terminal():
    assert "\x1b" not in str(QuotaEntity("\x1b[2J"))


def test_the_names_of_an_entity_are_those_of_its_non_default_parts():
    assert levels("alice", "app")[0][0].names == {"user": "alice", "client-id": "app"}
    assert levels("alice", "app")[4][0].names == {}
    assert levels("alice", "app")[6][0].names == {"client-id": "app"}
