"""Formats ages, times, sizes and outcomes for columns of tables, and wraps text at 80 characters."""

import re
import textwrap
from typing import TYPE_CHECKING

from quota.text import format_duration, format_time, printable

if TYPE_CHECKING:
    from quota.records.decision import Decision

WIDTH = 80

_LABEL = 14
"""The width of the column of labels [characters]."""

_SECOND = 1000
_SIZES = ("B", "KiB", "MiB", "GiB", "TiB")
_STEP = 1024
_FEW = 10
_SECONDS = len("00:00:00")


def format_age(at: int, moment: int | None) -> str:
    """Format the age of a time at `at`, both epoch ms; `-` for None."""
    if moment is None:
        return "-"
    age = max(0, at - moment) // _SECOND * _SECOND
    return f"{format_duration(age)} ago" if age else "now"


def format_moment(at: int, moment: int) -> str:
    """Format a time (epoch ms) for a table, in UTC to the second, and without the date if it is the date of `at`."""
    date, _, time = format_time(moment).partition("T")
    time = f"{time[:_SECONDS]}Z"
    return time if format_time(at).startswith(date) else f"{date}T{time}"


def format_size(size_bytes: int) -> str:
    """Format a size [bytes] in its largest unit."""
    size = float(size_bytes)
    for unit in _SIZES[:-1]:
        if size < _STEP:
            return f"{size:.0f} {unit}" if unit == _SIZES[0] or size >= _FEW else f"{size:.1f} {unit}"
        size /= _STEP
    return f"{size:.1f} {_SIZES[-1]}"


def format_outcome(decision: "Decision") -> str:
    """Format the outcome of a decision; in shadow mode, the outcome that is not enforced."""
    if decision.validate_only:
        return f"{decision.outcome.value} (validate only)"
    return decision.outcome.value if decision.shadow is None else f"{decision.shadow.outcome.value} (shadow)"


def format_reach(newest_at: int) -> str:
    """Say as of when the audit's tables are, given the time of the newest decision (epoch ms)."""
    return f"The audit has decisions up to {format_time(newest_at)}; newer ones follow while it is running."


def format_number(number: int | None) -> str:
    """Format a number with commas; `-` for an unknown one."""
    return "-" if number is None else f"{number:,}"


def fill(text: str, first: str, others: str, width: int = WIDTH) -> str:
    """Wrap text at `width` characters. Names and numbers are not broken; lists of configs are."""
    wrapper = _Wrapper(
        width, initial_indent=first, subsequent_indent=others, break_on_hyphens=False, break_long_words=False
    )
    return wrapper.fill(text)


class _Wrapper(textwrap.TextWrapper):
    _unit = r"(?:ms|s|min|h|d|mutations?/s)\b"
    wordsep_simple_re = re.compile(rf"((?<!\d)[ \t\n]+|[ \t\n]+(?!{_unit})|(?<=,)(?=[a-z_.]+=))")
    """Where a line may be broken: at white space, but not at U+00A0 or before a unit; and between configs."""


def labelled(label: str, text: str) -> str:
    """Return a label and its text, in lines of at most `WIDTH` characters."""
    head = f"{label}:".ljust(_LABEL)
    return fill(printable(text), head, " " * len(head))
