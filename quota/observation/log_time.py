"""The time at the head of a line of a log."""

import re
from datetime import datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from quota.errors import BadInput

_OFFSET = re.compile(r"(?:GMT|UTC)?([+-])(\d\d):?(\d\d)")
_TIME = re.compile(  # a time with an unknown zone does not match
    rb"(\d{4}-\d\d-\d\d)[ T](\d\d):(\d\d):(\d\d)[.,](\d{3})\d*(?: ?(Z|[+-]\d\d(?::?\d\d)?))?(?![\w+-]| ?[A-Z]{1,5}\])"
)

_STEP_BACK_MS = 1_800_000
"""The times of a log go back by more than this only when clocks are set back at the end of summer time."""


def parse_zone(name: str) -> tzinfo:
    """Return a time zone by its name, such as Europe/Berlin, or by its offset, such as +05:30."""
    if offset := _OFFSET.fullmatch(name):
        sign, hours, minutes = offset.groups()
        shift = timedelta(hours=int(hours), minutes=int(minutes))
        if shift < timedelta(hours=24):
            return timezone(-shift if sign == "-" else shift)
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise BadInput(f"{name!r} is not a time zone, such as UTC, Europe/Berlin or +05:30") from None


class LogTime:
    """Reads the times of one log, whose lines are about in the order of their times."""

    def __init__(self, zone: tzinfo) -> None:
        """Start at the beginning of a log, whose times are in this zone where they name none."""
        self._zone = zone
        self._hours: dict[bytes, tuple[int, int]] = {}
        self._latest = 0

    def read(self, head: bytes) -> int | None:
        """Return the first time in the head of a line [epoch ms]; None if it has none.

        When clocks are set back, an hour occurs twice: the second one begins where the log's times go back.
        """
        found = _TIME.search(head)
        if found is None:
            return None
        date, hour, minute, second, fraction, offset = found.groups()
        key = date + hour + (offset or b"")
        starts = self._hours.get(key)
        if starts is None:
            try:
                starts = self._hours[key] = self._hour_starts(date.decode(), int(hour), (offset or b"").decode())
            except (ValueError, OverflowError):
                return None
        within = (int(minute) * 60 + int(second)) * 1000 + int(fraction)
        first, repeated = starts
        at = first + within
        if first != repeated and at < self._latest - _STEP_BACK_MS:
            at = repeated + within
        self._latest = max(self._latest, at)
        return at

    def _hour_starts(self, date: str, hour: int, offset: str) -> tuple[int, int]:
        """Return the start of an hour [epoch ms], and that of the later hour of the same name."""
        start = datetime.fromisoformat(f"{date}T{hour:02d}:00:00{offset}")
        if start.tzinfo is None:
            start = start.replace(tzinfo=self._zone)
        first, repeated = (round(start.replace(fold=fold).timestamp() * 1000) for fold in (0, 1))
        if repeated - first > timedelta(hours=2) / timedelta(milliseconds=1) or repeated < first:
            repeated = first  # an hour that is left out in spring
        return first, repeated
