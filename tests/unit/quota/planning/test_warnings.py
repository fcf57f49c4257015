"""Quotas that are valid, and yet apply to nobody or are evaded: what every command says of them."""

import shlex

import pytest
from msgspec import UNSET

from quota.algorithms.token_bucket import TokenBucket
from quota.planning.warnings import (
    Loophole,
    loopholes,
    name_warning,
    quota_warnings,
    rate_warning,
    session_warnings,
    user_warnings,
)
from quota.records.decision import Outcome
from quota.records.entity import QuotaEntity
from quota.records.quota_log import Window
from quota.records.record import BEGINNING
from quota.settings.principals import PrincipalRules
from quota.whatif.simulation import simulate
from tests.support.factories import request_json, timeline
from tests.support.programs import run

ALICE, OTHERS = QuotaEntity("alice"), QuotaEntity(None)

NOBODY = "probably nobody's name: leave out User:, spaces around it and percent-encoding; groups have no quotas"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("User:alice", NOBODY),
        ("user: alice", NOBODY),
        ("CN%3Dalice", NOBODY),
        (" alice", NOBODY),
        ("alice ", NOBODY),
        ("Group:x", NOBODY),
        ("*", "this is one name, and not all of them; set the default instead"),
        ("<default>", "this is one name, and not all of them; set the default instead"),
    ],
)
def test_a_name_that_names_nobody_is_warned_of(name, expected):
    assert name_warning(name).startswith(expected)


@pytest.mark.parametrize("name", ["alice", "100%", "50%off", "a b", "CN=Doe, J,O=x", "User", "a:b", "ä", "%", "*a"])
def test_an_ordinary_name_is_not_warned_of(name):
    """With a space before it, it is."""
    assert [name_warning(given) for given in (name, f" {name}")] == [None, NOBODY]


@pytest.mark.parametrize(
    ("entity", "others", "expected"),
    [
        (QuotaEntity(UNSET, None), [], 1),
        (QuotaEntity("alice", "app"), [], 1),
        (QuotaEntity("alice", None), [OTHERS], 1),
        (ALICE, [], 0),
        (ALICE, [QuotaEntity("bob", None)], 0),
        (ALICE, [QuotaEntity("alice", None)], 1),
    ],
)
def test_a_quota_that_is_altered_is_warned_of_for_its_own_loopholes(entity, others, expected):
    assert len(quota_warnings([entity], {entity, *others}, of=[entity])) == expected


def test_users_in_the_settings_are_checked_like_those_of_quotas():
    assert user_warnings("quota.exempt_users", ["admin", "User:ops"]) == [f"quota.exempt_users: 'User:ops': {NOBODY}"]


def test_validate_and_config_describe_warn_of_names(tmp_path):
    """A default of users, which hides the loopholes, does not hide that nobody has the name."""
    file = tmp_path / "quotas.yaml"
    file.write_text(
        'quotas:\n  - {entity: {user: "User:alice"}, controller_mutation_rate: 1, effective_at: 4070908800000}\n'
        "  - {entity: {user: null}, controller_mutation_rate: 100}\n"
    )
    done = run("quotas", "validate", str(file), "--fail-on-warning", cwd=tmp_path)
    warning = f"warning: user-principal 'User:alice': {NOBODY}\n"
    assert (done.returncode, done.stderr) == (2, warning)
    done = run("config", "describe", "quota", "--set", 'quota.exempt_users=["User:ops"]', cwd=tmp_path)
    warning = f"warning: quota.exempt_users: 'User:ops': {NOBODY}\n"
    assert (done.returncode, done.stderr) == (0, warning)


@pytest.mark.parametrize(
    ("entities", "expected"),
    [
        ([], [Loophole(None, None)]),
        ([OTHERS], []),
        ([OTHERS, QuotaEntity("alice", "app")], []),
        ([OTHERS, QuotaEntity("alice", None)], [Loophole("alice", QuotaEntity("alice", None))]),
        ([OTHERS, QuotaEntity(None, None)], [Loophole(None, QuotaEntity(None, None))]),
        ([QuotaEntity(UNSET, None)], [Loophole(None, QuotaEntity(UNSET, None))]),
        ([QuotaEntity("alice", "app")], [Loophole("alice", None), Loophole(None, None)]),
    ],
)
def test_clients_that_can_bypass_quotas_are_found(entities, expected):
    assert loopholes(entities) == expected


def test_advice_against_bypassing_is_given():
    (hole,) = loopholes([QuotaEntity(None), QuotaEntity("alice", None)])
    assert str(hole) == (
        "user 'alice' gets a full bucket with each new client-id, by the quota of user-principal 'alice', "
        "the default client-id; replace that entry by one with \"entity: {user: 'alice'}\""
    )
    alice, _ = loopholes([QuotaEntity("alice", "app")])
    assert str(alice) == (
        "user 'alice' is unlimited with any client-id that no quota names; "
        "add an entry with \"entity: {user: 'alice'}\""
    )
    (hole,) = loopholes([])
    assert str(hole) == ('a user whom no quota names is unlimited; add an entry with "entity: {user: null}"')


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
    holes = [hole for hole in loopholes(entities) if hole.user in {"alice", None}]
    kept = [entity for entity in entities if entity not in {hole.by for hole in holes}]
    assert admitted([*kept, QuotaEntity(holes[0].user)]) == 2


def admitted(entities):
    """Return how many of fifty simultaneous requests of alice are admitted, each under a separate client-id."""
    requests = [request_json(10, client_id=f"fresh-{number}", timestamp=0) for number in range(50)]
    quotas = timeline(*[(entity, 1.0, BEGINNING) for entity in entities])
    return sum(decision.outcome is Outcome.ADMITTED for decision in simulate(requests, quotas, TokenBucket(Window())))


ROLE = "arn:aws:sts::111122223333:assumed-role/orders-service"


@pytest.mark.parametrize(
    ("names", "rule", "user"),
    [
        (
            [f"{ROLE}/{n}" for n in range(2)],
            r"'RULE:^arn:aws[^:]*:sts::\d+:assumed-role\/([^\/]+)\/.*$/$1/, DEFAULT'",
            "?",
        ),
        ([f"spiffe://x.org/it's/{n}" for n in range(10)], None, "spiffe://x.org/it's"),
        ([f"{ROLE}/1", "alice", *(f"team-{n}" for n in range(40)), *(f"team/{n}" for n in range(9))], None, None),
    ],
    ids=["sessions of a role", "many that differ in their last part", "others"],
)
def test_users_that_are_probably_sessions_of_one_are_warned_of_with_the_rule_that_maps_them(names, rule, user):
    warnings = session_warnings(names * 2)
    assert len(warnings) == (user is not None)
    for warning in warnings:
        assert warning.startswith(f"{len(names)} users differ only after ")
        given = shlex.split(warning.partition("--set ")[2].partition(". Brokers")[0])[0].partition("=")[2]
        assert rule in {None, f"'{given}'"}
        assert {PrincipalRules(given).user(f"User:{name}") for name in names} == {user.replace("?", "orders-service")}


def test_validate_warns_about_loopholes(tmp_path):
    file = tmp_path / "quotas.yaml"
    file.write_text("quotas:\n  - entity: {user: null, client-id: null}\n    controller_mutation_rate: 1\n")
    done = run("quotas", "validate", str(file), cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, f"{file}: 1 quota, valid\n")
    assert done.stderr.startswith("warning: a user whom no quota names gets a full bucket with each new client-id")


_MOST, _LEAST = (
    "mutations/s are more than a controller does, so this limits nobody",
    "mutations/s are less than one an hour, so a topic is paid for in hours or days",
)


@pytest.mark.parametrize(
    ("rate", "warning"),
    [(1e6, None), (1.1e6, f"1.1e+06 {_MOST}"), (0.0003, None), (0.0002, f"0.0002 {_LEAST}")],
)
def test_a_rate_that_is_probably_a_slip_is_warned_of(rate, warning):
    assert rate_warning(rate) == warning


def test_a_rate_that_is_probably_a_slip_is_asked_back(tmp_path):
    (tmp_path / "q.yaml").write_text("quotas:\n- {entity: {user: alice}, controller_mutation_rate: 1.1e+6}\n")
    validated = run("quotas", "validate", "q.yaml", cwd=tmp_path).stderr
    assert f"warning: user-principal 'alice': 1.1e+06 {_MOST}\n" in validated
    alter = ("quotas", "alter", "--user", "alice", "--add-config", "controller_mutation_rate=1.1e6")
    assert f"controller_mutation_rate: 1.1e+06 {_MOST}; add --yes if it is meant\n" in run(*alter).stderr
    meant = run(*alter, "--yes", "--bootstrap-server", "127.0.0.1:1", "--set", "kafka.timeout_seconds=0.1")
    assert "127.0.0.1:1" in meant.stderr
