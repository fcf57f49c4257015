"""The period of a report, in intervals of a round length."""

from collections.abc import Iterator
from dataclasses import dataclass

from quota.text import format_time

INTERVALS = 300
"""The largest number of intervals that a chart on a wide screen can show."""

_SECONDS = (
    *(1, 2, 5, 10, 15, 30),
    *(minutes * 60 for minutes in (1, 2, 5, 10, 15, 30)),
    *(hours * 3600 for hours in (1, 2, 3, 6, 12)),
)
_DAY = 86_400


@dataclass(frozen=True, slots=True)
class Period:
    """`count` intervals of `width` ms from `start` on; `start` is epoch ms and a multiple of the width."""

    start: int
    width: int
    count: int

    @classmethod
    def over(cls, first: int, last: int) -> "Period":
        """Return the period with the shortest intervals that contains `first` to `last` (epoch ms, inclusive)."""
        width = next(filter(lambda width: _intervals(first, last, width) <= INTERVALS, _widths()))
        return cls(first // width * width, width, _intervals(first, last, width))

    @property
    def end(self) -> int:
        """The end, exclusive [epoch ms]."""
        return self.start + self.count * self.width

    def __str__(self) -> str:
        return f"{format_time(self.start)} to {format_time(self.end)}"


def _widths() -> Iterator[int]:
    yield from (seconds * 1000 for seconds in _SECONDS)
    days = 1
    while True:
        yield days * _DAY * 1000
        days *= 2


def _intervals(first: int, last: int, width: int) -> int:
    return last // width - first // width + 1
