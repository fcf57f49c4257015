"""The figures of a report, which the page contains.

All series have a value for each interval of the period, in order.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec

from jobs.audit.quota_history import DescribedChange
from quota.errors import BadInput
from quota.text import format_tags, format_time
from quota.whatif.effects import Totals
from quota.whatif.evaluation import Result

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


_MAX_SENDERS = 20


class Series(msgspec.Struct, frozen=True):
    """The figures of one tenant, or of several together, by interval."""

    name: str
    """The display name; characters that could be confused with others are escaped."""
    user: str | None
    """The user whose bucket it is; None if the bucket has no user."""
    client_id: str | None
    """The client-id whose bucket it is; None if the bucket has no client-id."""
    requests: list[int]
    admitted: list[int]
    """Effective mutations admitted."""
    rejected: list[int]
    peak: list[int]
    """Effective mutations admitted in the busiest second."""
    throttled: list[int]
    """The throttle time of all tenants [ms]; two tenants throttled at once count twice."""
    tokens: list[float | None]
    """The lowest tokens [mutations]; None if no decision used a bucket."""
    share: list[float | None]
    """The lowest tokens as a share of the burst."""
    p50: list[int | None]
    """The median of the time from request to decision [ms]."""
    p99: list[int | None]
    """Its 99th percentile [ms]."""


class Letters(msgspec.Struct, frozen=True):
    """The dead letters of a topic whose errors begin with the same field."""

    topic: str
    field: str
    example: str
    counts: list[int]


class CandidateTotals(msgspec.Struct, frozen=True):
    """The totals of one candidate, for all senders or for one."""

    candidate: str
    sender: str
    load: Totals


class Candidates(msgspec.Struct, frozen=True):
    """The compared candidates: the totals of each for all senders, and for the busiest ones."""

    tried: list[CandidateTotals]
    left_out: int
    """The largest number of senders of a candidate that are not listed."""


class Figures(msgspec.Struct, frozen=True):
    """All figures of a report."""

    start: int
    """The start of the first interval [epoch ms]."""
    width: int
    """The length of an interval [ms]."""
    count: int
    total: Series
    tenants: list[Series]
    """The busiest tenants, the busiest first."""
    others: Series | None
    changes: list[DescribedChange]
    changes_left_out: int
    letters: list[Letters] | None
    """None in a report on one user, because a dead letter has no user."""
    user: str | None
    """The only user of the report; None for all."""
    candidates: Candidates | None = None

    @property
    def period(self) -> Period:
        """The period of the report."""
        return Period(self.start, self.width, self.count)


def read_candidates(file: Path) -> Candidates:
    """Read the output of `backtest --output json`."""
    try:
        outcomes = msgspec.json.decode(file.read_bytes(), type=Result).outcomes
    except OSError as error:
        raise BadInput(f"--backtest {file}: {error.strerror}") from None
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise BadInput(f"--backtest {file}: not the output of backtest --output json: {error}") from None
    tried = []
    for outcome in outcomes:
        tried.append(CandidateTotals(outcome.name, "all senders", outcome.load))
        for sender in outcome.senders[:_MAX_SENDERS]:
            tags = {"user": sender.user, "client-id": sender.client_id}
            tried.append(CandidateTotals(outcome.name, format_tags(tags), sender.load))
    return Candidates(tried, max([0, *(len(outcome.senders) - _MAX_SENDERS for outcome in outcomes)]))
