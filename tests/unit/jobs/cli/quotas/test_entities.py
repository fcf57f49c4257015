"""kafka-configs.sh's long form of an entity."""

import pytest

from jobs.cli.quotas.entities import to_short_form
from quota.errors import BadInput


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
