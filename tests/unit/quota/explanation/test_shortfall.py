"""What a rejected client is told."""

import pytest
from msgspec.structs import replace

from quota.explanation.shortfall import Shortfall, client_message
from tests.support.factories import decided

DEBT = replace(decided(80, state=-60.0), user="orders", client_id="app", user_tag="orders", client_tag="")
TOLD = "user orders may change 5 partitions/s and is 60 over; try again in 12 s; decision mutation-requests-0-0"


def told(left_ms=12_000, **fields):
    return Shortfall.of(replace(DEBT, **fields)).sentence(left_ms)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, TOLD),
        ({"left_ms": 0}, TOLD.replace("in 12 s", "now")),
        ({"left_ms": 4_980_000}, TOLD.replace("12 s", "1 h 23 min")),
        ({"quota": 1.0}, TOLD.replace("5 partitions", "1 partition")),
        ({"quota": 0.25, "tokens": -0.01}, TOLD.replace("5 partitions", "0.25 partitions").replace("60", "0.1")),
        ({"client_tag": "app"}, TOLD.replace("user orders", "user orders with client-id app")),
        ({"user_tag": "", "client_tag": "app"}, TOLD.replace("user orders", "client-id app of all users")),
        ({"user": "a\nb", "user_tag": "a\nb"}, TOLD.replace("orders", r"'a\nb'")),
        ({"user": "x" * 32_767, "user_tag": "x" * 32_767}, TOLD.replace("orders", "x" * 100 + "...")),
    ],
)
def test_the_sentence_says_what_was_exceeded_by_how_much_and_when_to_try_again(fields, expected):
    assert told(**fields) == expected


@pytest.mark.parametrize(
    "tags",
    [
        {"user_tag": "", "more_tags": {"group": "mallory, orders"}},
        {"user_tag": "mallory"},
        {"user_tag": "", "client_tag": "mallory"},
    ],
)
def test_it_names_nobody_else(tags):
    """A callback's tags may have the names of those who share the bucket."""
    said = told(**tags)
    assert said.startswith("everybody who shares this quota may change 5 partitions/s and is 60 over; ")
    assert "mallory" not in said


def test_without_a_quota_there_is_nothing_to_tell():
    assert [Shortfall.of(decided(80, rate=rate)) is None for rate in (5.0, None)] == [False, True]


def test_an_operators_line_follows_the_sentence_without_its_full_stop():
    assert client_message("{reason}; quotas: wiki", "Waiting does not help.") == "Waiting does not help; quotas: wiki"
