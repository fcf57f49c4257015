"""Parses times in options."""

import re
from datetime import UTC, datetime, timedelta

from quota.errors import BadInput
from quota.kafka.timing import now_ms
from quota.records.fields import MAX_EPOCH_MS
from quota.text import format_time

_RELATIVE = re.compile(r"([+-])(\d{1,9})([smhd])")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
_MIN_DIGITS = 12
"""The smallest number of digits of epoch ms: fewer may be epoch seconds, or a date such as 20270101."""


def parse_time(option: str, text: str) -> int:
    """Return a time in epoch ms: from epoch ms, ISO 8601 (UTC without a zone), or relative to now as -2h and +30m."""
    try:
        if relative := _RELATIVE.fullmatch(text):
            sign, count, unit = relative.groups()
            seconds = timedelta(**{_UNITS[unit]: int(count)}).total_seconds()
            moment = now_ms() + round(float(f"{sign}1") * seconds * 1000)
        elif text.isascii() and text.isdigit():
            moment = int(text) if len(text) >= _MIN_DIGITS else -1
        else:
            local = datetime.fromisoformat(text)
            moment = round((local if local.tzinfo else local.replace(tzinfo=UTC)).timestamp() * 1000)
    except (ValueError, OverflowError):
        moment = -1
    if not 0 <= moment <= MAX_EPOCH_MS:
        raise BadInput(
            f"{option} {text!r}: expected a time: 2026-11-21T14:00 (UTC), epoch ms, or relative to now (-2h, +30m)"
        )
    return moment


def parse_effective_at(text: str | None) -> int | None:
    """Parse `--effective-at`: the time when a change takes effect (epoch ms), not in the past; None if not given."""
    if text is None:
        return None
    moment = parse_time("--effective-at", text)
    if moment <= now_ms():
        when = f"{format_time(moment)} is in the past"
        raise BadInput(f"--effective-at {text}: {when}; a change can take effect now or later")
    return moment
