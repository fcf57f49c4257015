"""The times in lines of a log."""

import re
from contextlib import suppress
from datetime import datetime, timedelta, timezone, tzinfo

from quota.errors import BadRecord
from quota.text import parse_zone

_TIME = re.compile(
    rb"""
    (?<!\d)(?:
      (?:
        (20\d\d)([-/.]?)(0[1-9]|1[0-2])\2([0-3]\d)                              # 2026-11-22, 2026/11/22, 20261122
        | (\d\d?)[ /-](Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[ /-](20\d\d)           # 22 Nov 2026
      )
      [ T:]? ([0-2]\d)(:?)([0-5]\d)\9([0-6]\d) (?:[.,:](\d{1,9}) | (?<=\d{14})(\d{3}))?        # 17:39:55,315, 173955315
      (?:[ ]?(
        Z | (?:UTC|GMT)?[+-]\d\d(?::?\d\d)?
        | (?!DEBUG|TRACE|INFO|WARN|ERROR|FATAL)(?:[A-Z]{2,5}(?=[\] ]|$) | [A-Z][\w/ ]*(?=\]))
      ))?
      | (1\d{9})(?:[.,]?(\d{3})\d*)?                                            # seconds, ms, us or ns of the epoch
    )(?![\w+-])
    """,
    re.VERBOSE,
)
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")

_ZONES = {"Z": 0, "UTC": 0, "GMT": 0, "WET": 0, "WEST": 1, "CET": 1, "CEST": 2, "EET": 2, "EEST": 3, "MSK": 3, "JST": 9}
"""The offsets of the names of zones that have one meaning [hours]."""

_AMBIGUOUS = {"AM", "PM", "AST", "BST", "CDT", "CST", "EDT", "EST", "HST", "IST", "MDT", "MST", "PDT", "PST", "SST"}

_STEP_BACK_MS = 1_800_000
"""The times of a log go back by more than this only when clocks are set back at the end of summer time."""


class LogTime:
    """Reads the times of one log, whose lines are about in the order of their times."""

    def __init__(self, zone: tzinfo) -> None:
        """Start at the beginning of a log, whose times are in this zone where they name none."""
        self._zone = zone
        self._hours: dict[tuple[str, str], tuple[int, int]] = {}
        self._latest = 0

    def read(self, head: bytes) -> tuple[int, int] | None:
        """Return the time in the head of a line [epoch ms], and its resolution [ms]: 1 or 1000; None if it has none.

        Of several times, one with milliseconds goes before others, then one with a zone, then the last one. When clocks
        are set back, an hour occurs twice: the second one begins where the log's times go back.
        """
        best, best_rank = None, -1
        for match in _TIME.finditer(head):
            is_epoch = match[15] is not None
            fraction = match[16] if is_epoch else match[12] or match[13]
            zone = "" if is_epoch else _zone_name(match, head)
            rank = 2 * bool(fraction) + bool(is_epoch or zone)
            if rank >= best_rank and (start := self._start(match, zone)) is not None:
                best, best_rank = (start, (fraction or b"0")[:3].ljust(3, b"0"), 1 if fraction else 1000), rank
        if best is None:
            return None
        (first, repeated), fraction, resolution = best
        at = first + int(fraction)
        if first != repeated and at < self._latest - _STEP_BACK_MS:
            at = repeated + int(fraction)
        self._latest = max(self._latest, at)
        return at, resolution

    def _start(self, match: re.Match[bytes], zone: str) -> tuple[int, int] | None:
        """Return the second of a time [epoch ms], and the later one of the same name; None if it does not exist."""
        if match[15]:
            return int(match[15]) * 1000, int(match[15]) * 1000
        if match[6]:
            date = f"{match[7].decode()}-{_MONTHS.index(match[6].decode()) + 1:02d}-{int(match[5]):02d}"
        else:
            date = b"-".join(match.group(1, 3, 4)).decode()
        hour = f"{date}T{match[8].decode()}"
        starts = self._hours.get((hour, zone))
        if starts is None:
            try:
                starts = self._hours[hour, zone] = self._hour_starts(hour, zone)
            except (ValueError, OverflowError):
                return None
        within = (int(match[10]) * 60 + int(match[11])) * 1000
        return starts[0] + within, starts[1] + within

    def _hour_starts(self, hour: str, zone: str) -> tuple[int, int]:
        """Return the start of an hour [epoch ms], and that of the later hour of the same name."""
        start = datetime.fromisoformat(f"{hour}:00:00").replace(tzinfo=self._zone)
        folds = [start.replace(fold=fold) for fold in (0, 1)]
        if zone:
            named = [fold for fold in folds if fold.tzname() == zone]
            folds = named or [start.replace(tzinfo=_named(zone, self._zone))]
        first, *_, repeated = (round(fold.timestamp() * 1000) for fold in [folds[0], *folds])
        if repeated - first > timedelta(hours=2) / timedelta(milliseconds=1) or repeated < first:
            repeated = first  # an hour that is left out in spring
        return first, repeated


def _zone_name(match: re.Match[bytes], head: bytes) -> str:
    """Return the zone of a time; empty for a word that follows a time and is not known as a zone."""
    zone = (match[14] or b"").decode()
    is_zone = not zone.isalpha() or zone in _ZONES or zone in _AMBIGUOUS or head[match.end() :].startswith(b"]")
    return zone if is_zone else ""


def _named(zone: str, of_log: tzinfo) -> tzinfo:
    """Return a zone that a time names."""
    if zone in _ZONES:
        return timezone(timedelta(hours=_ZONES[zone]))
    offset = zone.removeprefix("UTC").removeprefix("GMT")
    with suppress(ValueError):
        if not zone.isalpha():
            return parse_zone(offset if len(offset) > len("+00") else f"{offset}:00")
    raise BadRecord(
        f"{zone} is the name of several time zones, or of none, and not one of {of_log}: set observe.time_zone to that "
        "of the brokers, such as America/New_York"
    )
