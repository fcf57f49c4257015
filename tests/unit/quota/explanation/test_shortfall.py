"""What a rejected client is told."""

import pytest
from msgspec.structs import replace

from quota.explanation.shortfall import Shortfall
from tests.support.factories import decided

DEBT = replace(decided(80, state=-60.0), user_tag="orders", client_tag="")
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
        ({"user_tag": "a\nb"}, TOLD.replace("orders", r"'a\nb'")),
    ],
)
def test_the_sentence_says_what_was_exceeded_by_how_much_and_when_to_try_again(fields, expected):
    assert told(**fields) == expected


def test_it_names_nobody_else():
    """A callback's tags may have the names of those who share the bucket."""
    said = told(user_tag="", more_tags={"group": "mallory, orders"})
    assert said.startswith("everybody who shares this quota may change 5 partitions/s and is 60 over; ")
    assert "mallory" not in said


def test_without_a_quota_there_is_nothing_to_tell():
    assert [Shortfall.of(decided(80, rate=rate)) is None for rate in (5.0, None)] == [False, True]
