"""Counts and their nouns, tokens, and times."""

import pytest

from quota.text import format_duration, format_rate, format_time, format_tokens, plural


def test_a_count_has_its_noun():
    assert [plural(count, "file") for count in (0, 1, 2000)] == ["0 files", "1 file", "2,000 files"]


@pytest.mark.parametrize(
    ("tokens", "shown"),
    [(-0.0001, "-0.1"), (-8.74, "-8.7"), (-10.6, "-11"), (0.04, "0.0"), (9.97, "10"), (-12345.6, "-12,346")],
)
def test_tokens_near_zero_have_a_decimal_and_a_debt_is_never_shown_as_zero(tokens, shown):
    assert format_tokens(tokens) == shown


@pytest.mark.parametrize(
    ("milliseconds", "shown"),
    [
        (0, "0 s"),
        (1, "1 ms"),
        (27_862, "27.9 s"),
        (59_901, "1 min"),
        (61_000, "1 min 1 s"),
        (3_599_999, "1 h"),
        (4_985_812, "1 h 24 min"),
        (2**31 - 1, "24 d 21 h"),
        (1e9 * 86_400_000, "1,000,000,000 d"),
    ],
)
def test_a_duration_is_shown_in_its_two_largest_units_and_is_never_too_short(milliseconds, shown):
    assert format_duration(milliseconds) == shown


def test_a_rate_of_one_is_singular():
    assert [format_rate(rate) for rate in (1.0, 0.5, 10.0)] == ["1 mutation/s", "0.5 mutations/s", "10 mutations/s"]


@pytest.mark.parametrize(
    ("epoch_ms", "expected"),
    [
        (-1, "the beginning"),
        (9_550_596_416_137, "2272-08-24T07:26:56.137Z"),  # a float has too few digits for its milliseconds
        (253_402_300_799_999, "9999-12-31T23:59:59.999Z"),
        (253_402_300_800_000, "253402300800000"),
    ],
)
def test_a_time_is_shown_to_the_millisecond_and_as_a_number_after_the_year_9999(epoch_ms, expected):
    assert format_time(epoch_ms) == expected
