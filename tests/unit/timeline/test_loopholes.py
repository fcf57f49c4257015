"""A new client-id for each request: the layouts of quotas that it bypasses."""

import re

import pytest
from msgspec import UNSET

from quota.algorithms.token_bucket import TokenBucket
from quota.records.decision import Outcome
from quota.records.entity import QuotaEntity
from quota.records.fields import BEGINNING
from quota.records.quota import Window
from quota.timeline.loopholes import loopholes
from quota.whatif.simulation import simulate
from tests.support.factories import request_json, timeline
from tests.support.programs import run

NEW_BUCKET = "a full bucket with each new client-id"
NO_QUOTA = "unlimited"
OTHERS = "a user whom no quota names"


@pytest.mark.parametrize(
    ("entities", "expected"),
    [
        ([], [(OTHERS, NO_QUOTA)]),
        ([QuotaEntity(None)], []),
        ([QuotaEntity(None), QuotaEntity("alice", "app")], []),
        ([QuotaEntity(None), QuotaEntity("alice", None)], [("user 'alice'", NEW_BUCKET)]),
        ([QuotaEntity(None, None)], [(OTHERS, NEW_BUCKET)]),
        ([QuotaEntity(None, None), QuotaEntity(None)], [(OTHERS, NEW_BUCKET)]),
        ([QuotaEntity(UNSET, None)], [(OTHERS, NEW_BUCKET)]),
        (
            [QuotaEntity("alice", "app")],
            [("user 'alice'", NO_QUOTA), (OTHERS, NO_QUOTA)],
        ),
        ([QuotaEntity(None, "app"), QuotaEntity(None)], []),
    ],
)
def test_clients_that_can_bypass_quotas_are_found(entities, expected):
    found = loopholes(entities)
    assert len(found) == len(expected)
    for text, (who, how) in zip(found, expected, strict=True):
        assert re.match(rf"{who} (gets?|is|are) {how}", str(text))


def test_advice_against_bypassing_is_given():
    (found,) = loopholes([QuotaEntity(None), QuotaEntity("alice", None)])
    assert str(found) == (
        "user 'alice' gets a full bucket with each new client-id, by the quota of user-principal 'alice', "
        "the default client-id; replace that entry by one with \"entity: {user: 'alice'}\""
    )
    alice, _ = loopholes([QuotaEntity("alice", "app")])
    assert str(alice) == (
        "user 'alice' is unlimited with any client-id that no quota names; "
        "add an entry with \"entity: {user: 'alice'}\""
    )
    (found,) = loopholes([])
    assert str(found) == ('a user whom no quota names is unlimited; add an entry with "entity: {user: null}"')


LAYOUTS = {
    "a default for each client-id of alice": [QuotaEntity(None), QuotaEntity("alice", None)],
    "a default for each client-id of anybody": [QuotaEntity(None, None)],
    "a default for client-ids, whoever uses them": [QuotaEntity(UNSET, None)],
    "a quota of one client-id": [QuotaEntity(UNSET, "app")],
    "no quota": [],
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_layout_that_validate_offers_stops_fresh_client_ids(layout):
    """Each request has ten mutations and a new client-id, at a rate of 1 and so a burst of 11: all, or two of them."""
    entities = LAYOUTS[layout]
    assert admitted(entities) == 50
    found = [each for each in loopholes(entities) if each.user in {"alice", None}]
    assert admitted([each for each in entities if each not in {hole.by for hole in found}] + [found[0].instead]) == 2


def admitted(entities):
    """Return how many of fifty simultaneous requests of alice are admitted, each under a separate client-id."""
    requests = [request_json(10, client_id=f"fresh-{number}", timestamp=0) for number in range(50)]
    quotas = timeline(*[(entity, 1.0, BEGINNING) for entity in entities])
    return sum(each.outcome is Outcome.ADMITTED for each in simulate(requests, quotas, TokenBucket(Window())))


def test_validate_warns_about_loopholes(tmp_path):
    file = tmp_path / "quotas.yaml"
    file.write_text("quotas:\n  - entity: {user: null, client-id: null}\n    controller_mutation_rate: 1\n")
    done = run("quotas", "validate", str(file), cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, f"{file}: 1 quota, valid\n")
    assert done.stderr.startswith("warning: a user whom no quota names gets a full bucket with each new client-id")
