"""The options of `quotas`, and arguments that are rejected before any cluster is contacted."""

import pytest

from jobs.cli.quotas.entities import to_short_form
from quota.errors import BadInput
from tests.support.programs import run

ALICE = ["--user", "alice"]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (["--user", "a"], ["--user", "a"]),
        (["--entity-type", "users", "--entity-name", "a"], ["--user=a"]),
        (["--entity-type=users", "--entity-default"], ["--user-defaults"]),
        (
            [
                "--entity-type",
                "users",
                "--entity-default",
                "--entity-type",
                "clients",
                "--entity-name",
                "-x",
                "--output",
                "json",
            ],
            ["--output", "json", "--user-defaults", "--client=-x"],
        ),
        (
            ["--entity-type", "clients", "--entity-type", "users", "--entity-name", "c", "--entity-name", "u"],
            ["--client=c", "--user=u"],
        ),
    ],
)
def test_the_long_form_of_an_entity_is_understood(given, expected):
    assert to_short_form(given) == expected


@pytest.mark.parametrize(
    ("given", "error"),
    [
        (["--entity-type", "users"], "needs an --entity-name"),
        (["--entity-name", "a"], "each --entity-type"),
        (
            ["--entity-type", "users", "--entity-name", "a", "--entity-type", "users", "--entity-name", "b"],
            "--entity-type users is given twice",
        ),
        (
            ["--entity-type", "clients", *["--entity-type", "users"] * 2, *["--entity-name", "a"] * 3],
            "--entity-type users is given twice",
        ),
        (["--entity-type", "topics", "--entity-name", "a"], "--entity-type topics: expected users or clients"),
        (["--entity-type"], "--entity-type needs a value"),
    ],
)
def test_an_inconsistent_long_form_is_rejected(given, error):
    with pytest.raises(BadInput, match=error):
        to_short_form(given)


@pytest.mark.parametrize(
    ("args", "error"),
    [
        *[
            ([*ALICE, "--add-config", f"controller_mutation_rate={value}"], f"above 0, got {value!r}")
            for value in ("nan", "inf", "-inf", "0", "-1", "fast", "1_000", "1e_5", "1e999", "\uff11\uff10", "")
        ],
        ([*ALICE, "--add-config", "producer_byte_rate=5"], "unknown config 'producer_byte_rate'"),
        ([*ALICE, "--delete-config", "producer_byte_rate"], "unknown config 'producer_byte_rate'"),
        ([*ALICE, "--delete-config", "controller_mutation_rate=7"], "unknown config 'controller_mutation_rate=7'"),
        (ALICE, "give --add-config"),
        (["--add-config", "controller_mutation_rate=5"], "whose quota?"),
        (["--user", "", "--add-config", "controller_mutation_rate=5"], "--user: the name is empty"),
        ([*ALICE, "--user-defaults", "--add-config", "controller_mutation_rate=5"], "are mutually exclusive"),
        (["--frobnicate"], "No such option: --frobnicate"),
    ],
)
def test_invalid_input_is_one_line_with_exit_code_2_and_contacts_no_cluster(args, error):
    done = run("quotas", "alter", *args, "--bootstrap-server", "127.0.0.1:1")
    assert done.returncode == 2
    assert error in done.stderr
    assert done.stderr.count("\n") == 1


def test_an_unreachable_cluster_is_one_line():
    done = run("quotas", "describe", "--bootstrap-server", "127.0.0.1:1", "--set", "kafka.timeout_seconds=0.5")
    assert done.returncode == 1
    assert "at 127.0.0.1:1" in done.stderr
    assert done.stderr.count("\n") == 1
