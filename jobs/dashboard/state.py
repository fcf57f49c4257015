"""All data that the page shows, updated by answers and quota changes."""

import math
import secrets
import threading
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from typing import Any

import msgspec
from msgspec.structs import replace

from jobs.audit.quota_history import ChangeDescriber, DescribedChange, scheduled_changes, scheduled_for
from jobs.dashboard.decisions import LAST_HOUR, RecentDecisions, Span, Summary, summarize
from jobs.dashboard.tenants import Tenants
from jobs.metrics.totals import MutationCounts
from quota.admission.order import RunningOrder, position_of
from quota.admission.policy import Policy
from quota.callbacks.timeline import CallbackTimeline
from quota.explanation.explanation import Explanation, explain
from quota.records.dead_letter import DeadLetter
from quota.records.decision import Decision, Outcome, as_received
from quota.records.quota_log import ClusterRecord, QuotaLogEntry
from quota.settings import Settings
from quota.text import printable
from quota.timeline.change import ScheduledChange, to_change

_FIRST_DECISIONS = 300
_MAX_DECISIONS = 200
_MAX_CHANGES = 200
_MAX_SCHEDULED = 20
_LETTER_CHARS = 300

_MAX_THROTTLED = 50_000
_MAX_SPANS = 24
"""A throttle counts for at most so many times what is kept."""

_OVERLAP = 3
"""The number of newest intervals that are always sent again, because earlier throttles may count in them."""


class Interval(msgspec.Struct):
    """The sums of one interval, in the form for the page."""

    at: int
    """Its start [epoch ms]."""
    seq: int = 0
    """The number of the state change that has changed it last."""
    decisions: int = 0
    admitted: int = 0
    """Effective mutations admitted."""
    rejected: int = 0
    throttled: int = 0
    """The number of buckets with a throttled sender."""
    wait: int = 0
    """The longest throttle time [ms]."""
    p50: int | None = None
    """The median time from request to decision [ms]; None if no client waited for a decision."""
    p99: int | None = None
    letters: int = 0


class Load:
    """The sums of each interval, of all tenants or of some."""

    def __init__(self, span: Span) -> None:
        self._span = span
        self._intervals: dict[int, Interval] = {}
        self._latencies: defaultdict[int, Counter[int]] = defaultdict(Counter)
        self._throttled_until: dict[str, int] = {}
        self._throttles: Counter[int] = Counter()
        """The throttles that begin with an interval, less those that have ended, by the start of the interval."""

    def add(self, decision: Summary) -> None:
        """Add a decision."""
        interval = self._at(decision.at, decision.seq)
        interval.decisions += 1
        interval.admitted += decision.admitted
        interval.rejected += decision.rejected
        interval.wait = max(interval.wait, decision.wait)
        if decision.latency is not None:
            self._latencies[interval.at][_rounded(decision.latency)] += 1
        if decision.wait:
            self._count_throttled(decision)

    def add_letter(self, at: int, seq: int) -> None:
        """Count a dead letter whose record has the timestamp `at` (epoch ms), as the state change `seq`."""
        self._at(at, seq).letters += 1

    def _count_throttled(self, decision: Summary) -> None:
        """Count the bucket from this interval until its throttle ends, also in future ones, once in each."""
        start = max(self._span.start_of(decision.at), self._throttled_until.get(decision.bucket, 0))
        wait = min(decision.wait, _MAX_SPANS * self._span.kept)
        end = self._span.start_of(decision.at + wait - 1) + self._span.width
        if start >= end:
            return
        if len(self._throttled_until) >= _MAX_THROTTLED:
            self._throttled_until.clear()  # clients can make up client-ids; their intervals may count twice then
        self._throttles[start] += 1
        self._throttles[end] -= 1
        self._throttled_until[decision.bucket] = end

    def expire(self, now: int) -> None:
        """Drop the intervals that end before what is kept."""
        first = self._span.start_of(now - self._span.kept)
        for start in [start for start in self._intervals if start < first]:
            del self._intervals[start]
            self._latencies.pop(start, None)
        for start in [start for start in self._throttles if start < first]:
            self._throttles[first] += self._throttles.pop(start)
        for bucket in [bucket for bucket, until in self._throttled_until.items() if until <= first]:
            del self._throttled_until[bucket]

    def intervals(self, now: int, after_seq: int = 0) -> list[Interval]:
        """Return the intervals from the oldest that has changed since a state change up to `now` (epoch ms)."""
        width, newest = self._span.width, self._span.start_of(now)
        changed = [start for start, interval in self._intervals.items() if interval.seq > after_seq]
        if not after_seq:
            changed += self._throttles
        first = min([newest - (_OVERLAP - 1) * width, *changed])
        first = max(first, self._span.start_of(now - self._span.kept))
        throttled = sum(change for start, change in self._throttles.items() if start < first)
        found = []
        for start in range(first, newest + 1, width):
            throttled += self._throttles.get(start, 0)
            interval = self._intervals.get(start)
            if interval is not None or throttled:
                latencies = self._latencies.get(start, Counter())
                p50, p99 = (_percentile(latencies, percent) for percent in (50, 99))
                found.append(replace(interval or Interval(start), throttled=throttled, p50=p50, p99=p99))
        return found

    def _at(self, moment: int, seq: int) -> Interval:
        start = self._span.start_of(moment)
        interval = self._intervals.get(start)
        if interval is None:
            interval = self._intervals[start] = Interval(start)
        interval.seq = seq
        return interval


@dataclass
class View:
    """What a page shows, and what it has received of it."""

    text: str = ""
    """Tenants and decisions are shown if a name of theirs contains it, in any case."""
    only_rejected: bool = False
    """Only decisions that rejected topics, or throttled the client, are listed."""
    period: tuple[float, float] = (0, math.inf)
    """Only decisions of requests in this period are listed (epoch ms, without its end)."""
    state: str = ""
    """The state that it has received."""
    seq: int = 0
    """The last change of it."""
    load: Load | None = None
    """The load of the tenants that it shows, unless it shows all."""

    def shows(self, *names: str) -> bool:
        """Return whether one of the names contains the text."""
        return not self.text or any(self.text in name.casefold() for name in names)

    def lists(self, decision: Summary) -> bool:
        """Return whether a decision is listed whose names are shown."""
        start, end = self.period
        is_smooth = decision.outcome == Outcome.ADMITTED.value and not decision.wait
        return start <= decision.at < end and not (self.only_rejected and is_smooth)


class PageState:
    """The model of the page: a deployment's last hour, or a period. One thread writes it, and others may read it."""

    def __init__(self, settings: Settings, now: int, span: Span = LAST_HOUR) -> None:
        """Start empty, at `now` (epoch ms)."""
        self.id = secrets.token_hex(8)
        self._span = span
        self._lock = threading.Lock()
        self._seq = 0
        self._load = Load(span)
        self._order = RunningOrder()
        self._decisions = RecentDecisions(span.kept)
        self._tenants = Tenants(settings.quota.window, Policy.of(settings), now, span.kept)
        self._describer = ChangeDescriber()
        self._changes: list[tuple[int, DescribedChange]] = []
        self._entries: list[QuotaLogEntry] = []
        self._letter = 0, ""
        self._scheduled: list[ScheduledChange] = []

    def record(self, answer: Decision | DeadLetter, at: int | None, *, listed: bool = True) -> None:
        """Add an answer whose record has the timestamp `at` (epoch ms); None if nobody waited. Copies count once.

        `listed` is False for a decision that is only counted, because more than the page can list follow.
        """
        if isinstance(answer, DeadLetter):
            self.record_letter(answer.error, at or answer.timestamp or 0)
            return
        with self._lock:
            if answer.decision_id in self._decisions:
                return
            self._seq += 1
            received_at = answer.timestamp if at is None else at
            counts, decision = MutationCounts.of(answer), as_received(answer, received_at)
            place, *_ = self._order.place(position_of(decision))
            summary = summarize(decision, counts, at, place, self._seq)
            if listed:
                self._decisions.add(answer, summary, received_at)
            self._load.add(summary)
            self._tenants.record(summary.bucket, decision, counts, self._seq)

    def record_letter(self, error: str, at: int) -> None:
        """Count a dead letter whose record has the timestamp `at` (epoch ms)."""
        with self._lock:
            self._seq += 1
            self._load.add_letter(at, self._seq)
            if at >= self._letter[0]:
                self._letter = at, printable(error)[:_LETTER_CHARS]

    def add_changes(
        self, entries: list[QuotaLogEntry], is_listed: Callable[[DescribedChange], bool] = lambda _: True
    ) -> None:
        """Add records of the quota log, in its order; the newest changes that are to be listed are kept."""
        with self._lock:
            self._seq += 1
            described = [self._describer.add(entry) for entry in entries]
            self._changes += [(self._seq, change) for change in described if change is not None and is_listed(change)]
            del self._changes[:-_MAX_CHANGES]
            self._entries = [*self._entries, *entries]

    def refresh(self, now: int, quotas: CallbackTimeline, *, changed: bool) -> None:
        """Update everything to `now` (epoch ms); `changed` says whether the quota log has new records."""
        with self._lock:
            self._seq += 1
            changed = changed or any(change.effective_at <= now for change in self._scheduled[:1])
            self._tenants.refresh(now, quotas, self._seq, changed=changed)
            self._load.expire(now)
            self._decisions.expire(now)
            if changed:
                self._scheduled = scheduled_changes(quotas, now)
                self._entries = without_old_clusters(self._entries, now - self._span.kept)

    def news(self, view: View, now: int) -> dict[str, Any]:
        """Return what a page has not received of its view yet; everything for a new page."""
        with self._lock:
            is_first, load = view.state != self.id, self._load
            if is_first or view.load is None:
                view.state, view.seq, view.load = self.id, 0, Load(self._span)
            fresh = [summary for summary in self._decisions.since(view.seq) if view.shows(summary.user, summary.client)]
            if view.text:
                load = view.load
                for summary in reversed(fresh):
                    load.add(summary)
                load.expire(now)
            rows = self._tenants.rows(view.shows)
            news = {
                "first": is_first,
                "intervals": load.intervals(now, view.seq),
                "tenants": [row for seq, row in rows if seq > view.seq],
                "buckets": len(rows),
                "left_out": self._tenants.left_out,
                "throttled": sum(row.retry_at > now for _, row in rows),
                "decisions": list(islice(filter(view.lists, fresh), _FIRST_DECISIONS if is_first else _MAX_DECISIONS)),
                "oldest": self._decisions.oldest_at,
                "changes": [change for changed, change in reversed(self._changes) if changed > view.seq],
                "letter": self._letter[1],
                "scheduled": [change.change for change in self._scheduled[:_MAX_SCHEDULED]],
                "scheduled_more": max(0, len(self._scheduled) - _MAX_SCHEDULED),
            }
            view.seq = self._seq
            return news

    def of_bucket(self, bucket: str, count: int) -> dict[str, Any]:
        """Return the row of a tenant, by the key of its bucket, and its newest decisions, newest first."""
        with self._lock:
            rows = (row for _, row in self._tenants.rows(lambda *_: True) if row.key == bucket)
            return {"tenant": next(rows, None), "decisions": self._decisions.of_bucket(bucket)[: -count - 1 : -1]}

    def explain(self, decision_id: str) -> Explanation | None:
        """Explain a decision, as of the last `refresh`; None if it is not stored."""
        with self._lock:
            decision = self._decisions.find(decision_id)
            if decision is None:
                return None
            charged = {} if decision.quota is None else self._tenants.charged(decision.tags.key)
            sender, entity = (decision.user, decision.client_id), decision.quota_entity
            scheduled = scheduled_for(self._scheduled, *sender, entity, decision.tags)
        return replace(explain(decision), last_hour=charged, scheduled=scheduled)

    def entries(self) -> list[QuotaLogEntry]:
        """Return the records of the quota log, in its order, without superseded metadata of clusters."""
        return self._entries

    def records(self) -> list[bytes]:
        """Return the records of all decisions, those of each bucket in its order."""
        with self._lock:
            return self._decisions.records()


def without_old_clusters(entries: list[QuotaLogEntry], since: int) -> list[QuotaLogEntry]:
    """Return entries without metadata of clusters that was superseded before `since` (epoch ms).

    A record of metadata may have megabytes, and a scheduled `callback publish-metadata` may write one every minute.
    """
    moments = {
        number: to_change(entry.record, entry.timestamp).moment
        for number, entry in enumerate(entries)
        if isinstance(entry.record, ClusterRecord)
    }
    old = [number for number, moment in moments.items() if moment <= since]
    in_force = max(old, key=lambda number: (moments[number], number), default=None)
    replaced = {*old} - {in_force}
    return [entry for number, entry in enumerate(entries) if number not in replaced]


def _rounded(latency_ms: int) -> int:
    """Round to two digits, so that an interval has at most a few hundred different values."""
    return latency_ms if latency_ms < 100 else round(latency_ms, 2 - len(str(latency_ms)))  # noqa: PLR2004


def _percentile(counts: Counter[int], percent: int) -> int | None:
    left = counts.total() * percent // 100
    for value, count in sorted(counts.items()):
        left -= count
        if left < 0:
            return value
    return max(counts, default=None)
