"""All data that the page shows, updated by answers and quota changes."""

import secrets
import threading
from typing import Any, NamedTuple

from jobs.dashboard.decisions import KEPT_MS, RecentDecisions
from jobs.dashboard.load import Load
from jobs.dashboard.tenants import MAX_TENANTS, Tenants
from jobs.metrics.totals import MutationCounts
from jobs.report.changes import ChangeDescriber, DescribedChange
from quota.callbacks.timeline import CallbackTimeline
from quota.explanation.explanation import Neighbours
from quota.kafka.requests import ReceivedAnswer
from quota.records.dead_letter import DeadLetter
from quota.records.decision import Decision, as_received
from quota.records.quota_log import ClusterRecord, QuotaLogEntry
from quota.settings import Settings
from quota.text import printable
from quota.timeline.change import to_change

_FIRST_DECISIONS = 300
_MAX_DECISIONS = 200
_MAX_CHANGES = 200
_LETTER_CHARS = 300


class Cursor(NamedTuple):
    """The position of a page: the state that it shows, and the last change that it received."""

    state: str = ""
    seq: int = 0


class LiveState:
    """The last hour of a deployment. One thread writes it, and others may read it."""

    def __init__(self, settings: Settings, now: int) -> None:
        """Start empty, at `now` (epoch ms)."""
        self.id = secrets.token_hex(8)
        self._settings = settings
        self._lock = threading.Lock()
        self._seq = 0
        self._load = Load()
        self._decisions = RecentDecisions()
        self._tenants = Tenants(settings.quota.window, settings.policy, self._load, now)
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
                self._load.record_letter(received.at, self._seq)
                self._letter = printable(answer.error)[:_LETTER_CHARS]
            elif isinstance(answer, Decision) and answer.decision_id not in self._decisions:
                counts, decision = MutationCounts.of(answer), as_received(answer, received.at)
                self._decisions.add(received, answer, counts, self._seq)
                self._load.record(decision, counts, received.at, self._seq)
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

    def changes_since(self, cursor: Cursor, now: int) -> tuple[dict[str, Any], Cursor]:
        """Return the changes for a page since its cursor, and the new cursor; everything for a new page."""
        with self._lock:
            is_first = cursor.state != self.id
            seq = 0 if is_first else cursor.seq
            news = {
                "first": is_first,
                "intervals": self._load.intervals(now, seq),
                "tenants": self._tenants.rows(MAX_TENANTS, seq),
                "buckets": len(self._tenants),
                "left_out": self._tenants.left_out,
                "throttled": self._tenants.throttled(now),
                "decisions": self._decisions.newest(_FIRST_DECISIONS if is_first else _MAX_DECISIONS, seq),
                "changes": [change for changed, change in reversed(self._changes) if changed > seq],
                "letter": self._letter,
            }
            return news, Cursor(self.id, self._seq)

    def of_bucket(self, bucket: str, count: int) -> list[Any]:
        """Return the newest decisions of a bucket, by its key, newest first."""
        with self._lock:
            return list(self._decisions.newest(count, bucket=bucket))

    def find(self, decision_id: str, neighbours: int) -> tuple[Decision, Neighbours] | None:
        """Return a decision with the others of its bucket; None if it is not stored."""
        with self._lock:
            decision = self._decisions.find(decision_id)
            return None if decision is None else (decision, self._decisions.neighbours(decision, neighbours))

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
