"""The figures of a report, which the page contains.

All series have a value for each interval of the period, in order.
"""

from pathlib import Path

import msgspec

from jobs.report.changes import DescribedChange
from jobs.report.period import Period
from quota.errors import BadInput
from quota.text import format_tags
from quota.whatif.result import Result, Totals

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
    refused: list[int]
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
