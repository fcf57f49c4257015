"""A report: the page with data of the audit's tables, or of a file of requests, instead of the topics."""

from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from itertools import accumulate, repeat
from operator import mul
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.dataset as ds
from msgspec.structs import replace

from jobs.audit.quota_changes import read_quota_log
from jobs.audit.quota_history import DescribedChange, quotas_in_force
from jobs.audit.reader import open_table, read_errors, to_datetime, to_epoch_ms
from jobs.audit.tables import DEAD_LETTERS
from jobs.dashboard.decisions import KEPT_DECISIONS, Span
from jobs.dashboard.page import Heading, save_page
from jobs.dashboard.state import PageState, View
from jobs.whatif import audited_requests, request_file
from jobs.whatif.candidates import read_quotas_of_file
from quota import __version__
from quota.callbacks.instance import check_callbacks
from quota.callbacks.timeline import CallbackTimeline
from quota.errors import ErrorCode, NotFound
from quota.kafka.timing import now_ms
from quota.records.decision import Decision, Outcome, Shadow
from quota.records.record import MAX_EPOCH_MS
from quota.records.request import Observed
from quota.settings import Settings
from quota.text import format_time, plural, quoted
from quota.whatif.effects import Period

INTERVALS = 300
"""The largest number of intervals that a chart on a wide screen can show."""

_NAMES = {code.value: code.name for code in ErrorCode}

_DAY_MS = 86_400_000
_UNITS = (("day", _DAY_MS), ("hour", 3_600_000), ("minute", 60_000), ("second", 1000))
_SECONDS = (
    *(1, 2, 5, 10, 15, 30),
    *(minutes * 60 for minutes in (1, 2, 5, 10, 15, 30)),
    *(hours * 3600 for hours in (1, 2, 3, 6, 12)),
)


@dataclass(frozen=True, slots=True)
class ReportScope:
    """The requests in a report: those from `since` on and before `until` (epoch ms), and only those of a user."""

    since: int | None = None
    until: int | None = None
    user: str | None = None

    @property
    def period(self) -> Period:
        """The period."""
        return Period(self.since, self.until)


@dataclass(frozen=True, slots=True)
class Report:
    """A report, with the number of its requests and its period: from `start` to `end` (epoch ms, not included)."""

    page: str
    requests: int
    start: int
    end: int


def report_on_tables(settings: Settings, scope: ReportScope) -> Report:
    """Return a report on the audit's tables; raises NotFound if no decision is in its scope."""
    check_callbacks(settings.quota.callbacks)
    with audited_requests.open_requests(settings, scope.period, user=scope.user) as requests:
        with read_errors(settings):
            letters = None if scope.user is not None else _Letters(settings, scope)
            first, last = letters.widened(requests.bounds) if letters else requests.bounds
        counted = _Counted(settings, first, last, scope.user, requests.count)
        counted.count(requests.answers())
        with read_errors(settings):
            for error, at in letters or ():
                counted.state.record_letter(error, at)
            entries = read_quota_log(settings, last, with_clusters=counted.has_callback)
    counted.state.add_changes(entries, counted.lists)
    origin = f"Of the audit's tables in {settings.storage.root}, for Kafka at {settings.kafka.bootstrap_servers}."
    with closing(CallbackTimeline.of(entries, settings.quota.callbacks)) as quotas:
        return counted.report(quotas, "Topic mutations", origin, audited=True)


def report_on_file(settings: Settings, file: str, scope: ReportScope, quotas: Path | None) -> Report:
    """Return a report on the requests of a file, with the cluster's answers, or as other quotas would decide."""
    tried = None if quotas is None else read_quotas_of_file(quotas, settings.quota.callbacks)
    with request_file.open_requests(settings, file, scope.period) as requests:
        first, last, count = _bounds(requests, scope.user)
        counted = _Counted(settings, first, last, scope.user, count)
        if tried is None:
            counted.count((_as_answered(decision), None) for decision in requests)
            origin = f"Of the requests in {_named(file)}, and the cluster's answers to them."
            return counted.report(CallbackTimeline(), "Topic mutations", origin)
        requests.quotas = tried
        counted.count((_with_answer(decision, decision.shadow), None) for decision in requests)
    origin = f"Of the requests in {_named(file)}, as the quotas in {_named(quotas)} would have decided them."
    return counted.report(tried, "What if: topic mutations", origin)


def _named(file: str | Path | None) -> str:
    return "standard input" if str(file) == "-" else str(file)


class _Letters:
    """The dead letters of a period in the audit's table."""

    def __init__(self, settings: Settings, scope: ReportScope) -> None:
        first = to_datetime(scope.since or 0)
        last = to_datetime(MAX_EPOCH_MS if scope.until is None else scope.until - 1)
        self._rows = open_table(settings, DEAD_LETTERS).dataset(first.date(), last.date())
        self._in_period = (ds.field("timestamp") >= first) & (ds.field("timestamp") <= last)

    def widened(self, bounds: tuple[int, int]) -> tuple[int, int]:
        """Return bounds (epoch ms) that also include all dead letters."""
        times = self._rows.to_table(columns=["timestamp"], filter=self._in_period)["timestamp"]
        if not times.length():
            return bounds
        return min(bounds[0], _to_ms(pc.min(times).as_py())), max(bounds[1], _to_ms(pc.max(times).as_py()))

    def __iter__(self) -> Iterator[tuple[str, int]]:
        """Yield the error and the time [epoch ms] of each."""
        for batch in self._rows.to_batches(columns=["error", "timestamp"], filter=self._in_period):
            yield from ((row["error"], _to_ms(row["timestamp"])) for row in batch.to_pylist())


def _to_ms(time: datetime) -> int:
    return to_epoch_ms(time) or 0


def _bounds(requests: Iterable[Decision], user: str | None) -> tuple[int, int, int]:
    """Return the earliest and the latest time of a user's requests [epoch ms], and their number."""
    first, last, count = MAX_EPOCH_MS, -1, 0
    for decision in requests:
        if user is None or decision.user == user:
            first, last = min(first, decision.timestamp), max(last, decision.timestamp)
            count += 1
    if not count:
        raise NotFound(f"no requests of user {quoted(user or '')}")
    return first, last, count


class _Counted:
    """The state of the page, counted over a period instead of the last hour."""

    def __init__(self, settings: Settings, first: int, last: int, user: str | None, count: int) -> None:
        """Start empty, for `count` requests of a user, or of all users, from the first to the last (epoch ms)."""
        self._user, self._last = user, last
        self._only_counted = count - KEPT_DECISIONS
        self._width = _width_over(first, last)
        self._start, self._end = first // self._width * self._width, last // self._width * self._width + self._width
        self._requests = 0
        self.has_callback = False
        """Whether a callback has resolved a quota."""
        kept_ms = 2 * (last - self._start + self._width)  # more than all, so that nothing expires
        self.state = PageState(settings, first, Span(kept_ms, self._width))

    def count(self, answers: Iterable[tuple[Decision, int | None]]) -> None:
        """Count decisions, each with the time of its record (epoch ms), None if nobody waited for it."""
        for decision, at in answers:
            if self._user is None or decision.user == self._user:
                self.state.record(decision, at, listed=self._requests >= self._only_counted)
                self._requests += 1
                self.has_callback = self.has_callback or decision.callback is not None

    def report(self, quotas: CallbackTimeline, title: str, origin: str, *, audited: bool = False) -> Report:
        """Return the report, whose buckets are those at its end; commands find the decisions of the audit's tables."""
        self.state.refresh(self._last, quotas, changed=True)
        data = self.state.news(View(), self._last)
        rejected = self.state.news(View(only_rejected=True), self._last)["decisions"]
        newest = {decision.id for decision in data["decisions"]}
        data["decisions"] += [decision for decision in rejected if decision.id not in newest]
        in_force = quotas_in_force(quotas.timeline, self._start - 1)
        data["changes"] += [change for change in in_force if self._concerns(change)]
        whose = "" if self._user is None else f" of user {quoted(self._user)}"
        heading = Heading(
            f"{title}{whose}",
            f"{_minute(self._start)} to {_minute(self._end)} UTC, in intervals of {_format_width(self._width)}.",
            f"{origin} Made {_minute(now_ms())} UTC by mutation-quota {__version__}.",
            _format_width(self._width),
        )
        about = {"now": self._last, "from": self._start, "to": self._end, "user": self._user, "audited": audited}
        return Report(save_page(heading, self._width, data | about), self._requests, self._start, self._end)

    def lists(self, change: DescribedChange) -> bool:
        """Return whether a change of quotas is one of the period that concerns the user."""
        return self._start <= change.at < self._end and self._concerns(change)

    def _concerns(self, change: DescribedChange) -> bool:
        return self._user is None or change.user in (None, self._user)


def _width_over(first: int, last: int) -> int:
    """Return the shortest length [ms] of intervals of which at most `INTERVALS` cover a period (epoch ms)."""
    return next(width for width in _widths() if last // width - first // width < INTERVALS)


def _widths() -> Iterator[int]:
    yield from (seconds * 1000 for seconds in _SECONDS)
    yield from (days * _DAY_MS for days in accumulate(repeat(2), mul, initial=1))


def _format_width(width: int) -> str:
    """Format a length [ms] in the largest unit of which it is a multiple."""
    unit, size = next((unit, size) for unit, size in _UNITS if width % size == 0)
    return plural(width // size, unit)


def _minute(ms: int) -> str:
    return format_time(ms)[:16].replace("T", " ")


def _as_answered(decision: Decision) -> Decision:
    """Return a decision with the cluster's answer, if its request was observed.

    Without a quota, buckets are not shared: each sender (user and client-id) has its own tags.
    """
    if decision.quota is None:
        decision = replace(decision, user_tag=decision.user, client_tag=decision.client_id)
    return _with_answer(decision, decision.observed)


def _with_answer(decision: Decision, answer: Observed | Shadow | None) -> Decision:
    """Return a decision with the cluster's answer, or that of its quota in shadow, if there is one."""
    if answer is None:
        return decision
    topics = [
        replace(topic, error_code=code, error=_NAMES.get(code, str(code)))
        for topic, code in zip(decision.topics, answer.error_codes, strict=True)
    ]
    return replace(
        decision,
        outcome=Outcome.of([not code for code in answer.error_codes]),
        topics=topics,
        throttle_time_ms=answer.throttle_time_ms,
        retry_at=decision.timestamp + answer.throttle_time_ms,
        shadow=None,
        observed=None,
    )
