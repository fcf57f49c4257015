"""Names, counts, tags, times and quotas as people read them."""

import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from itertools import pairwise
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from msgspec import UNSET, UnsetType

TOPIC_CHARS = "[a-zA-Z0-9._-]+"
MAX_TOPIC_CHARS = 249
TOPIC_NAME = rf"{TOPIC_CHARS.removesuffix('+')}{{1,{MAX_TOPIC_CHARS}}}"
"""The name of a topic that Kafka allows, as a regular expression of Python and Java; its characters and its length."""

_WITH_DECIMAL = 10
"""Tokens smaller than this in size have a decimal."""

_UNITS = (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1000))
_TENTH = 100
"""A tenth of a second [ms]."""

_JSON_CONTROLS = re.compile(r"[\x7f-\x9f]")

_OFFSET = re.compile(r"(?:GMT|UTC)?([+-])(\d\d):?(\d\d)")


def quoted(name: str) -> str:
    """Return a name in quotes; a name that is not ASCII is spelled out too, because characters may look alike."""
    literal, spelled = repr(name), ascii(name)
    return literal if literal == spelled else f"{literal} (spelled {spelled})"


def legible(name: str) -> str:
    """Return a name as it is if no other name looks the same; else quoted and spelled out."""
    return name if name.isascii() and name.isprintable() else quoted(name)


def printable(text: str) -> str:
    """Return text from outside the program without control characters, which a terminal would obey."""
    return text if text.isprintable() else repr(text)


def escaped(text: str, kept: str = "") -> str:
    """Return text whose control characters, which a terminal would obey, are replaced by escape sequences.

    Those in `kept` stay, such as a line break between lines.
    """
    return "".join(
        character if character.isprintable() or character in kept else character.encode("unicode_escape").decode()
        for character in text
    )


def escaped_json(json: str) -> str:
    """Return the same JSON with the control characters escaped that JSON allows in its strings."""
    return _JSON_CONTROLS.sub(lambda character: f"\\u{ord(character[0]):04x}", json)


def plural(count: int, noun: str) -> str:
    """Return a count and its noun, in the plural unless the count is 1."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def format_tokens(tokens: float) -> str:
    """Format tokens: with one decimal below 10 in size, else whole.

    A debt of less than 0.05 is shown as -0.1, because the sign decides whether the next topic is rejected.
    """
    shown = min(round(tokens, 1), -0.1) if tokens < 0 else round(tokens, 1)
    return f"{shown:.1f}" if abs(shown) < _WITH_DECIMAL else f"{tokens:,.0f}"


def display_name(part: str | UnsetType | None) -> str | None:
    """Return one part of an entity for a column: its name, `<default>`, or None if the entity lacks the part."""
    if part is UNSET:
        return None
    return "<default>" if part is None else part


def format_tags(tags: Mapping[str, str]) -> str:
    """Format the tags of a bucket."""
    return ", ".join(f"{tag} {quoted(value)}" for tag, value in tags.items())


def describe_sharing(tags: Mapping[str, str]) -> str:
    """Describe who shares the bucket with these tags."""
    if tags.keys() - {"user", "client-id"}:
        return f"of {format_tags(tags)}, shared by all who have these tags"
    user, client_id = tags.get("user"), tags.get("client-id")
    if not user:
        return f"of client-id {quoted(client_id or '')}, shared by all users"
    if not client_id:
        return f"of user {quoted(user)}, shared by all their client-ids"
    return f"of user {quoted(user)} with client-id {quoted(client_id)} alone"


def format_time(epoch_ms: int) -> str:
    """Format a time as ISO 8601 in UTC.

    A negative one, which is before all records, is `the beginning`; one after the year 9999 remains a number.
    """
    if epoch_ms < 0:
        return "the beginning"
    seconds, milliseconds = divmod(epoch_ms, 1000)  # a float has too few digits from the year 2242 on
    try:
        return f"{datetime.fromtimestamp(seconds, tz=UTC):%Y-%m-%dT%H:%M:%S}.{milliseconds:03}Z"
    except (ValueError, OverflowError):
        return str(epoch_ms)


def format_duration(milliseconds: float) -> str:
    """Format a duration in its two largest units, or with one decimal below a minute, as in `1 h 24 min` and `4.2 s`.

    It is rounded up, because a client that waits for less than its throttle time is rejected again.
    """
    if milliseconds < _UNITS[-1][1]:
        return f"{math.ceil(milliseconds)} ms" if milliseconds else "0 s"
    tenths = math.ceil(milliseconds / _TENTH)
    if tenths * _TENTH < _UNITS[-2][1]:
        return f"{tenths / 10:g} s"
    for (unit, size), (smaller, smaller_size) in pairwise(_UNITS):
        count, rest = divmod(math.ceil(milliseconds / smaller_size), size // smaller_size)
        if count:
            return f"{count:,} {unit} {rest} {smaller}" if rest else f"{count:,} {unit}"
    raise AssertionError("a minute is the largest unit of anything from a minute on")


def format_rate(rate: float) -> str:
    """Format a rate of mutations with its unit."""
    return f"{rate:.10g} mutation/s" if rate == 1 else f"{rate:.10g} mutations/s"


def config_value(value: float | None) -> str:
    """Format the value of a config, a number or a switch, as `--add-config` takes it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def parse_zone(name: str) -> tzinfo:
    """Return a time zone by its name, such as Europe/Berlin, or by its offset, such as +05:30; else a `ValueError`."""
    if offset := _OFFSET.fullmatch(name):
        sign, hours, minutes = offset.groups()
        shift = timedelta(hours=int(hours), minutes=int(minutes))
        if shift < timedelta(hours=24):
            return timezone(-shift if sign == "-" else shift)
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError(f"{name!r} is not a time zone, such as UTC, Europe/Berlin or +05:30") from None
