"""What a report shows: numbers that were added up before they got into the page.

All series have a value for each interval of the period, in its order.
"""

import msgspec

from jobs.report.candidates import Candidates
from jobs.report.period import Period


class Series(msgspec.Struct, frozen=True):
    """What happened to one tenant, or to several of them, interval by interval."""

    name: str
    """For people; nobody can take it for another one."""
    user: str | None
    """The user that shares the bucket; None where users take no part."""
    client_id: str | None
    """Likewise the client-id."""
    requests: list[int]
    admitted: list[int]
    """Mutations; neither what only asked, nor what was sent twice and charged once."""
    refused: list[int]
    """Mutations."""
    peak: list[int]
    """Mutations admitted in the busiest second."""
    throttled: list[int]
    """How long tenants were told to wait, ms; two that wait at once count twice."""
    tokens: list[float | None]
    """The lowest K, mutations; None where nothing was charged."""
    share: list[float | None]
    """The same as a share of the burst."""
    p50: list[int | None]
    """Of the time from request to decision, ms."""
    p99: list[int | None]


class Change(msgspec.Struct, frozen=True):
    """A change of the quota log."""

    at: int
    """From when on it holds, epoch ms."""
    what: str
    user: str | None
    """The only user whom it concerns; None for more than one."""
    client_id: str | None
    altered_by: str
    comment: str


class Letters(msgspec.Struct, frozen=True):
    """Dead letters with one reason: the field that their errors begin with."""

    topic: str
    field: str
    example: str
    counts: list[int]


class Figures(msgspec.Struct, frozen=True):
    """All of a report."""

    start: int
    """Epoch ms."""
    width: int
    """Of an interval, ms."""
    count: int
    total: Series
    tenants: list[Series]
    """The busiest first."""
    others: Series | None
    """All those behind them, together."""
    changes: list[Change]
    changes_left_out: int
    letters: list[Letters] | None
    """None where the report is of one user: a dead letter is nobody's."""
    user: str | None
    """The one whose requests are told of; None for all."""
    candidates: Candidates | None = None
    """What other quotas would have done; None where nobody asked."""

    @property
    def period(self) -> Period:
        """The time that all of it is of."""
        return Period(self.start, self.width, self.count)
