"""Ages, durations and sizes, as short as a column of a table."""

import pytest

from jobs.cli.wording import fill, format_age, format_duration, format_moment, format_size


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [
        (0, "0s"),
        (1000, "1s"),
        (61_000, "1m 1s"),
        (3_600_000, "1h"),
        (7_500_000, "2h 5m"),
        (2_592_000_000, "30d"),
    ],
)
def test_a_duration_is_shown_in_its_largest_units(milliseconds, text):
    assert format_duration(milliseconds) == text


def test_an_age_is_relative_to_the_current_time_and_is_never_negative():
    assert [format_age(100_000, each) for each in (40_000, 99_500, 200_000, None)] == ["1m ago", "now", "now", "-"]


@pytest.mark.parametrize(
    ("moment", "text"),
    [
        (1_728_000_000_000, "00:00:00Z"),
        (1_727_999_999_999, "2024-10-03T23:59:59Z"),
        (1_728_086_400_000, "2024-10-05T00:00:00Z"),
    ],
)
def test_a_time_of_the_current_day_is_shown_without_the_date(moment, text):
    """The current time is 2024-10-04T12:00:00Z."""
    assert format_moment(1_728_043_200_000, moment) == text


@pytest.mark.parametrize(
    ("size", "text"), [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (50_000_000, "48 MiB"), (2**50, "1024.0 TiB")]
)
def test_a_size_is_shown_in_its_largest_unit(size, text):
    assert format_size(size) == text


def test_a_line_is_not_broken_within_a_name():
    name = "a-name-with-hyphens-" * 5
    assert fill(f"see {name} there", "- ", "  ") == f"- see\n  {name}\n  there"
