"""All data that the page shows, updated by answers and quota changes."""

import math
import secrets
import threading
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from jobs.audit.quota_history import ChangeDescriber, DescribedChange
from jobs.dashboard.decisions import KEPT_MS, RecentDecisions, Summary, summarize
from jobs.dashboard.load import Load
from jobs.dashboard.tenants import Tenants
from jobs.metrics.totals import MutationCounts
from quota.admission.policy import Policy
from quota.callbacks.timeline import CallbackTimeline
from quota.kafka.requests_and_answers import ReceivedAnswer
from quota.records.dead_letter import DeadLetter
from quota.records.decision import Decision, Outcome, as_received
from quota.records.quota_log import ClusterRecord, QuotaLogEntry
from quota.settings import Settings
from quota.text import printable
from quota.timeline.change import to_change

_FIRST_DECISIONS = 300
_MAX_DECISIONS = 200
_MAX_CHANGES = 200
_LETTER_CHARS = 300


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
    load: Load = field(default_factory=Load)
    """The load of the tenants that it shows, unless it shows all."""

    def shows(self, *names: str) -> bool:
        """Return whether one of the names contains the text."""
        return not self.text or any(self.text in name.casefold() for name in names)

    def lists(self, decision: Summary) -> bool:
        """Return whether a decision is listed whose names are shown."""
        start, end = self.period
        is_smooth = decision.outcome == Outcome.ADMITTED.value and not decision.wait
        return start <= decision.at < end and not (self.only_rejected and is_smooth)


class LiveState:
    """The last hour of a deployment. One thread writes it, and others may read it."""

    def __init__(self, settings: Settings, now: int) -> None:
        """Start empty, at `now` (epoch ms)."""
        self.id = secrets.token_hex(8)
        self._lock = threading.Lock()
        self._seq = 0
        self._load = Load()
        self._decisions = RecentDecisions()
        self._tenants = Tenants(settings.quota.window, Policy.of(settings), now)
        self._describer = ChangeDescriber()
        self._changes: list[tuple[int, DescribedChange]] = []
        self._entries: list[QuotaLogEntry] = []
        self._letter = ""

    def record(self, received: ReceivedAnswer) -> None:
        """Add an answer; copies count once."""
        answer = received.answer
        with self._lock:
            self._seq += 1
            if isinstance(answer, DeadLetter):
                self._load.add_letter(received.at, self._seq)
                self._letter = printable(answer.error)[:_LETTER_CHARS]
            elif answer.decision_id not in self._decisions:
                counts, decision = MutationCounts.of(answer), as_received(answer, received.at)
                summary = summarize(decision, counts, received.at, self._seq)
                self._decisions.add(received, answer, summary)
                self._load.add(summary)
                self._tenants.record(decision, counts, self._seq)

    def add_changes(self, entries: list[QuotaLogEntry]) -> None:
        """Add records of the quota log, in its order."""
        with self._lock:
            self._seq += 1
            described = [self._describer.add(entry) for entry in entries]
            self._changes += [(self._seq, change) for change in described if change is not None]
            del self._changes[:-_MAX_CHANGES]
            self._entries = [*self._entries, *entries]

    def refresh(self, now: int, quotas: CallbackTimeline, *, changed: bool) -> None:
        """Update everything to `now` (epoch ms); `changed` says whether a quota has changed since the last call."""
        with self._lock:
            self._seq += 1
            self._tenants.refresh(now, quotas, self._seq, changed=changed)
            self._load.expire(now)
            self._decisions.expire(now)
            if changed:
                self._entries = without_old_clusters(self._entries, now - KEPT_MS)

    def news(self, view: View, now: int) -> dict[str, Any]:
        """Return what a page has not received of its view yet; everything for a new page."""
        with self._lock:
            is_first, load = view.state != self.id, self._load
            if is_first:
                view.state, view.seq, view.load = self.id, 0, Load()
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
                "letter": self._letter,
            }
            view.seq = self._seq
            return news

    def of_bucket(self, bucket: str, count: int) -> dict[str, Any]:
        """Return the row of a tenant, by the key of its bucket, and its newest decisions, newest first."""
        with self._lock:
            rows = (row for _, row in self._tenants.rows(lambda *_: True) if row.key == bucket)
            decisions = (summary for summary in self._decisions.since(0) if summary.bucket == bucket)
            return {"tenant": next(rows, None), "decisions": list(islice(decisions, count))}

    def find(self, decision_id: str) -> Decision | None:
        """Return a decision by its id; None if it is not stored."""
        with self._lock:
            return self._decisions.find(decision_id)

    def entries(self) -> list[QuotaLogEntry]:
        """Return the records of the quota log, in its order, without superseded metadata of clusters."""
        return self._entries

    def records(self) -> list[bytes]:
        """Return the records of all decisions, in the order of their requests."""
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
