"""A feed of the dashboard with given records instead of those of Kafka."""

from msgspec.structs import replace

from jobs.dashboard.feed import Contact, Feed
from quota.algorithms.token_bucket import TokenBucket
from quota.callbacks.timeline import CallbackTimeline
from quota.kafka.timing import now_ms
from quota.records.entity import QuotaEntity
from quota.records.quota_log import QuotaLogEntry, QuotaRecord, Window
from quota.timeline.change import to_change
from tests.support.factories import decide_all, resolved


class GivenFeed(Feed):
    """A feed with given records."""

    def __init__(self, settings):
        super().__init__(settings)
        self.quotas = CallbackTimeline()
        self.count = 0
        self.set_quota(QuotaEntity("alice"), 5.0)
        self.answers()

    def follow(self, stop):
        stop.wait()

    def answers(self):
        self.contact = Contact("live", at=now_ms() + 3_600_000)

    def set_quota(self, entity, rate, comment=None, at=None):
        entry = QuotaLogEntry(self.count, at or now_ms(), QuotaRecord(entity, rate, altered_by="ann", comment=comment))
        self.count += 1
        self.quotas.add(to_change(entry.record, entry.timestamp))
        self.state.add_changes([entry])
        self.state.refresh(now_ms(), self.quotas, changed=True)

    def storm(self, **names):
        """Decide three requests of 60 mutations at the same time: one is admitted, two are rejected."""
        at = now_ms()
        requests = [resolved(60, at=at + number, offset=self.count + number) for number in range(3)]
        self.count += 3
        _, decisions = decide_all(*requests, algorithm=TokenBucket(Window()))
        for decision in decisions:
            self.state.record(replace(decision, **names), at + 200)
        self.state.refresh(at, self.quotas, changed=False)
        return decisions
