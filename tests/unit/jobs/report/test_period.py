"""The intervals of a report."""

import pytest

from jobs.report.figures import Period

SECOND, MINUTE, HOUR, DAY = 1000, 60_000, 3_600_000, 86_400_000
NOON = 1_795_262_400_000


@pytest.mark.parametrize(
    ("length", "width"),
    [
        (1, SECOND),
        (300 * SECOND, SECOND),
        (301 * SECOND, 2 * SECOND),
        (DAY, 5 * MINUTE),
        (301 * DAY, 2 * DAY),
        (8000 * DAY, 32 * DAY),
    ],
)
def test_intervals_are_the_shortest_that_give_at_most_300(length, width):
    assert Period.over(0, length - 1).width == width


def test_a_period_covers_all_data_and_intervals_begin_at_round_times():
    period = Period.over(NOON + 7 * MINUTE, NOON + 19 * HOUR)
    assert (period.start, period.width, period.count) == (NOON + 5 * MINUTE, 5 * MINUTE, 228)
    assert period.end == NOON + 19 * HOUR + 5 * MINUTE
