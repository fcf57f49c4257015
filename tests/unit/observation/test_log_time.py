"""Times of log lines, by the calendar."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from quota.observation.log_time import LogTime


def ms(text):
    return round(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


@pytest.mark.parametrize(
    ("head", "zone", "utc"),
    [
        (b"[2026-11-22 17:39:55,315] DEBUG ", "Europe/Berlin", "2026-11-22T16:39:55.315"),
        (b"[2026-07-22 17:39:55,315] DEBUG ", "Europe/Berlin", "2026-07-22T15:39:55.315"),
        (b"2026-11-22T17:39:55.315123Z stdout F ", "Europe/Berlin", "2026-11-22T17:39:55.315"),
        (b"2026-11-22T17:39:55.315+0530 ", "UTC", "2026-11-22T12:09:55.315"),
        (b"2026-11-22 17:39:55.315 -03:00 ", "UTC", "2026-11-22T20:39:55.315"),
    ],
)
def test_a_time_is_read_in_the_zone_that_it_names_or_else_in_that_of_the_log(head, zone, utc):
    assert LogTime(ZoneInfo(zone)).read(head) == ms(utc)


@pytest.mark.parametrize(
    "head",
    [
        b"",
        b"[2026-13-22 17:39:55,315]",
        b"[2026-11-22 17:39]",
        b"[2026-11-22 17:39:55,315 CET]",
    ],
)
def test_a_line_without_a_time_has_none(head):
    assert LogTime(ZoneInfo("UTC")).read(head) is None


def test_the_repeated_hour_in_autumn_continues_where_the_log_steps_back():
    time = LogTime(ZoneInfo("Europe/Berlin"))  # at 03:00 on 2026-10-25 clocks are set back to 02:00
    read = [time.read(f"[2026-10-25 {each}]".encode()) for each in ("02:10:00,000", "02:59:59,000", "02:00:01,000")]
    assert read == [ms("2026-10-25T00:10"), ms("2026-10-25T00:59:59"), ms("2026-10-25T01:00:01")]
    assert time.read(b"[2026-10-25 02:30:00,000]") == ms("2026-10-25T01:30")
    assert time.read(b"[2026-10-25 03:00:00,000]") == ms("2026-10-25T02:00")


def test_lines_slightly_out_of_order_are_not_mistaken_for_a_clock_set_back():
    time = LogTime(ZoneInfo("Europe/Berlin"))
    assert time.read(b"[2026-10-25 02:10:05,000]") == ms("2026-10-25T00:10:05")
    assert time.read(b"[2026-10-25 02:10:04,000]") == ms("2026-10-25T00:10:04")
