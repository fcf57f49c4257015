"""Counts and their nouns, and tokens."""

import pytest

from quota.text import format_seconds, format_tokens, plural


def test_a_count_has_its_noun():
    assert [plural(each, "file") for each in (0, 1, 2000)] == ["0 files", "1 file", "2,000 files"]


@pytest.mark.parametrize(
    ("tokens", "shown"),
    [(-0.3, "-0.3"), (-8.74, "-8.7"), (-10.6, "-11"), (0.0, "0.0"), (0.04, "0.0"), (9.97, "10"), (-9.97, "-10")],
)
def test_tokens_near_zero_have_a_decimal(tokens, shown):
    assert format_tokens(tokens) == shown


@pytest.mark.parametrize("tokens", [-0.04, -0.0001])
def test_a_debt_is_never_shown_as_zero(tokens):
    assert format_tokens(tokens) == "-0.1"


def test_thousands_of_tokens_are_separated():
    assert format_tokens(-12345.6) == "-12,346"


def test_a_throttle_time_is_shown_in_seconds_to_the_millisecond():
    assert [format_seconds(each) for each in (0, 1, 12_000, 27_862, 2**31 - 1)] == [
        "0 s",
        "0.001 s",
        "12 s",
        "27.862 s",
        "2147483.647 s",
    ]
