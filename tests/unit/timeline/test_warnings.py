"""Quotas that are valid, and yet apply to nobody or are evaded: what every command says of them."""

import pytest
from msgspec import UNSET

from quota.records.entity import QuotaEntity
from quota.timeline.warnings import meant_for, name_warning, quota_warnings, user_warnings
from tests.support.programs import run

ALICE, OTHERS = QuotaEntity("alice"), QuotaEntity(None)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("User:alice", "principals are named without 'User:'; did you mean 'alice'?"),
        ("user: alice", "principals are named without 'User:'; did you mean 'alice'?"),
        ("User:CN%3Dalice", "principals are named without 'User:'; did you mean 'CN=alice'?"),
        ("CN%3Dalice%2CO%3Dx", "names are not percent-encoded; did you mean 'CN=alice,O=x'?"),
        (" alice", "the name begins or ends with a space; did you mean 'alice'?"),
        ("alice\t", "the name begins or ends with a space; did you mean 'alice'?"),
        ("*", "'*' is one name, and not all of them; set the default instead"),
        ("User:*", "'User:*' is one name, and not all of them; set the default instead"),
        ("<default>", "'<default>' is one name, and not all of them; set the default instead"),
        ("Group:x", "'Group:x' is the name of a user; there are no quotas of groups"),
    ],
)
def test_a_name_that_names_nobody_is_warned_of_with_the_one_that_is_meant(name, expected):
    assert name_warning(name).startswith(expected)


@pytest.mark.parametrize("name", ["alice", "100%", "50%off", "a b", "CN=Doe, J,O=x", "User", "a:b", "ä", "User:", "%"])
def test_an_ordinary_name_is_not_warned_of(name):
    assert name_warning(name) is None


@pytest.mark.parametrize(
    ("entity", "others", "expected"),
    [
        (QuotaEntity(UNSET, None), [], 1),
        (QuotaEntity("alice", "app"), [OTHERS], 0),
        (QuotaEntity("alice", "app"), [], 1),
        (QuotaEntity("alice", None), [OTHERS], 1),
        (ALICE, [], 0),
        (ALICE, [QuotaEntity("bob", None)], 0),
        (ALICE, [QuotaEntity("alice", None)], 1),
        (OTHERS, [], 0),
    ],
)
def test_a_quota_that_is_altered_is_warned_of_for_its_own_loopholes(entity, others, expected):
    assert len(quota_warnings([entity], {entity, *others}, of=[entity])) == expected


def test_a_user_without_a_quota_is_told_of_one_that_is_probably_meant():
    carol = QuotaEntity("User:carol")
    expected = ["user-principal 'User:carol': principals are named without 'User:'; did you mean 'carol'?"]
    assert meant_for("carol", "app", [carol, ALICE, QuotaEntity("User:dave")]) == expected
    assert meant_for("User:carol", "app", [carol]) == []


def test_users_in_the_settings_are_checked_like_those_of_quotas():
    assert user_warnings("quota.exempt_users", ["admin", "User:ops"]) == [
        "quota.exempt_users: 'User:ops': principals are named without 'User:'; did you mean 'ops'?"
    ]


def test_validate_and_config_show_warn_of_names(tmp_path):
    """A default of users, which hides the loopholes, does not hide that nobody has the name."""
    file = tmp_path / "quotas.yaml"
    file.write_text(
        'quotas:\n  - {entity: {user: "User:alice"}, controller_mutation_rate: 1, effective_at: 4070908800000}\n'
        "  - {entity: {user: null}, controller_mutation_rate: 100}\n"
    )
    done = run("quotas", "validate", str(file), "--fail-on-warning", cwd=tmp_path)
    warning = "warning: user-principal 'User:alice': principals are named without 'User:'; did you mean 'alice'?\n"
    assert (done.returncode, done.stderr) == (2, warning)
    done = run("config", "show", "quota", "--set", 'quota.exempt_users=["User:ops"]', cwd=tmp_path)
    warning = "warning: quota.exempt_users: 'User:ops': principals are named without 'User:'; did you mean 'ops'?\n"
    assert (done.returncode, done.stderr) == (0, warning)
