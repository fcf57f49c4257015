"""Times of log lines, by the calendar."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from quota.errors import BadRecord
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
        (b"2026-11-22T17:39:55.3Z ", "Europe/Berlin", "2026-11-22T17:39:55.300"),
        (b"[2026-11-22 17:39:55,315 UTC] ", "Europe/Berlin", "2026-11-22T17:39:55.315"),
        (b"[2026-11-22 17:39:55,315 GMT+01:00] ", "UTC", "2026-11-22T16:39:55.315"),
        (b"[2026-11-22 17:39:55,315 CET] ", "UTC", "2026-11-22T16:39:55.315"),
        (b"[2026-11-22 17:39:55:315 Europe/Berlin] ", "UTC", "2026-11-22T16:39:55.315"),
        (b"2026-11-22 17:39:55,315 EST DEBUG ", "America/New_York", "2026-11-22T22:39:55.315"),
        (b"2026-11-22 17:39:55,315 CST DEBUG ", "Asia/Shanghai", "2026-11-22T09:39:55.315"),
        (b"[2026-10-25 02:10:00,000 CET] ", "Europe/Berlin", "2026-10-25T01:10:00"),  # an hour that occurs twice
        (b"[2026-10-25 02:10:00,000 CEST] ", "Europe/Berlin", "2026-10-25T00:10:00"),
    ],
)
def test_a_time_is_read_in_the_zone_that_it_names_or_else_in_that_of_the_log(head, zone, utc):
    assert LogTime(ZoneInfo(zone)).read(head) == (ms(utc), 1)


@pytest.mark.parametrize(
    "head",
    [
        b"20261122T173955,315 ",  # ISO8601_BASIC
        b"20261122173955315 ",  # COMPACT
        b"22 Nov 2026 17:39:55,315 ",  # DATE
        b"1795369195315 ",  # UNIX_MILLIS
        b"1795369195315000000",
        b"1795369195.315",
        b"2026/11/22 17:39:55.315 ",
        b"\x1b[32m2026-11-22T17:39:55,315\x1b[m DEBUG ",
    ],
)
def test_the_formats_of_log4j2_and_times_of_the_epoch_are_read(head):
    assert LogTime(ZoneInfo("UTC")).read(head) == (1_795_369_195_315, 1)


@pytest.mark.parametrize("head", [b"2026-11-22 17:39:55 DEBUG [a-0] ", b"22/Nov/2026:17:39:55 +0000 ", b"1795369195 "])
def test_a_time_without_milliseconds_has_the_resolution_of_a_second(head):
    assert LogTime(ZoneInfo("UTC")).read(head) == (1_795_369_195_000, 1000)


@pytest.mark.parametrize(
    ("head", "utc"),
    [
        (b"2026-11-22T17:39:55.316Z stdout F 2026-11-22 17:39:55 DEBUG ", "2026-11-22T17:39:55.316"),
        (b"2026-11-22T17:39:55+00:00 host kafka[12]: [2026-11-22 17:39:55,315] ", "2026-11-22T17:39:55.315"),
        (b"2026-11-22 17:39:57,100 kafka-1 | [2026-11-22 17:39:55,315] ", "2026-11-22T17:39:55.315"),
    ],
)
def test_of_several_times_the_most_exact_one_counts_and_of_equal_ones_the_last(head, utc):
    assert LogTime(ZoneInfo("UTC")).read(head) == (ms(utc), 1)


@pytest.mark.parametrize(
    ("head", "zone"),
    [
        (b"17:39:55,315 EST DEBUG ", "EST"),
        (b"17:39:55,315 XYZ] DEBUG ", "XYZ"),
        (b"17:39:55,315 Central European Time] DEBUG ", "Central European Time"),
        (b"05:39:55 PM DEBUG ", "PM"),
    ],
)
def test_a_zone_that_is_not_clear_is_an_error_that_says_what_to_set(head, zone):
    with pytest.raises(BadRecord, match=f"^{zone} is the name of several time zones, or of none, .*: set --time-zone"):
        LogTime(ZoneInfo("UTC")).read(b"[2026-11-22 " + head)


@pytest.mark.parametrize(
    "head",
    [
        b"",
        b"[2026-13-22 17:39:55,315]",
        b"[2026-11-22 17:39]",
        b"17:39:55,315 DEBUG ",  # ABSOLUTE
        b"Nov 22 17:39:55 host kafka[12]: ",
        b"[2026-02-30 17:39:55,315]",
    ],
)
def test_a_line_without_a_time_has_none(head):
    assert LogTime(ZoneInfo("UTC")).read(head) is None


def test_the_repeated_hour_in_autumn_continues_where_the_log_steps_back():
    time = LogTime(ZoneInfo("Europe/Berlin"))  # at 03:00 on 2026-10-25 clocks are set back to 02:00
    read = [time.read(f"[2026-10-25 {each}]".encode())[0] for each in ("02:10:00,000", "02:59:59,000", "02:00:01,000")]
    assert read == [ms("2026-10-25T00:10"), ms("2026-10-25T00:59:59"), ms("2026-10-25T01:00:01")]
    assert time.read(b"[2026-10-25 02:30:00,000]") == (ms("2026-10-25T01:30"), 1)
    assert time.read(b"[2026-10-25 03:00:00,000]") == (ms("2026-10-25T02:00"), 1)


def test_lines_slightly_out_of_order_are_not_mistaken_for_a_clock_set_back():
    time = LogTime(ZoneInfo("Europe/Berlin"))
    assert time.read(b"[2026-10-25 02:10:05,000]") == (ms("2026-10-25T00:10:05"), 1)
    assert time.read(b"[2026-10-25 02:10:04,000]") == (ms("2026-10-25T00:10:04"), 1)
