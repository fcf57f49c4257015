"""Times on the command line and in what it prints."""

import re
import time
from datetime import UTC, datetime, timedelta

from quota.errors import BadInput
from quota.records.fields import LATEST
from quota.text import format_time

_AGO = re.compile(r"([+-])(\d{1,9})([smhd])")
_SHORT = 11
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


def now_ms() -> int:
    """The present, epoch ms."""
    return time.time_ns() // 1_000_000


def parse_time(option: str, text: str) -> int:
    """A time as epoch ms: given so, in ISO 8601 (UTC where it names no zone), or from now as in -2h and +30m.

    Raises:
        BadInput: it is none of these.
    """
    try:
        if relative := _AGO.fullmatch(text):
            sign, count, unit = relative.groups()
            seconds = timedelta(**{_UNITS[unit]: int(count)}).total_seconds()
            moment = now_ms() + round(float(f"{sign}1") * seconds * 1000)
        elif text.isascii() and text.isdigit():
            moment = int(text) if len(text) > _SHORT else -1  # 20270101 and epoch seconds are no epoch ms
        else:
            given = datetime.fromisoformat(text)
            moment = round((given if given.tzinfo else given.replace(tzinfo=UTC)).timestamp() * 1000)
    except (ValueError, OverflowError):
        moment = -1
    if not 0 <= moment <= LATEST:
        raise BadInput(f"{option} {text!r}: expected a time: 2026-11-21T14:00, epoch ms, or from now as in -2h or +30m")
    return moment


def parse_period(since: str | None, until: str | None) -> tuple[int | None, int | None]:
    """What --from and --to say, as epoch ms, where they are given.

    Raises:
        BadInput: one is no time.
    """
    first = None if since is None else parse_time("--from", since)
    return first, None if until is None else parse_time("--to", until)


def parse_future_time(option: str, text: str | None) -> int | None:
    """A time that is still to come, where one is given.

    Raises:
        BadInput: it is past: what has been decided stays decided.
    """
    if text is None:
        return None
    moment = parse_time(option, text)
    if moment <= now_ms():
        raise BadInput(f"{option} {text}: {format_time(moment)} is past; a change holds from now on, or from later on")
    return moment
