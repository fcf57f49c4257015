"""A dashboard without Kafka: its state, and the client of its HTTP interface."""

import threading

import pytest
from starlette.testclient import TestClient

from jobs.dashboard.feed import Contact, Feed
from jobs.dashboard.guard import Session
from jobs.dashboard.server import Dashboard
from quota.callbacks.timeline import CallbackTimeline
from quota.records.entity import QuotaEntity
from quota.records.quota_log import QuotaLogEntry, QuotaRecord
from quota.settings import load_settings
from quota.timeline.change import to_change
from tests.support.deployment import with_sections
from tests.support.factories import START, decided

ALICE = QuotaEntity("alice")
FIVE = QuotaLogEntry(0, START - 1000, QuotaRecord(ALICE, 5.0, altered_by="ann", comment="as agreed"))


DEBT = decided(60, at=START, offset=0)
"""K = 55 - 60 = -5, and nothing rejected."""
REJECTED = decided(30, at=START + 500, state=-2.5, offset=1)
"""Rejected at K = -2.5, which is zero again after 500 ms."""


def received(decision, latency_ms=100):
    """Return a decision, and the time at which it was written to its topic."""
    return decision, decision.timestamp + latency_ms


def quotas_of(*entries):
    quotas = CallbackTimeline()
    for entry in entries:
        quotas.add(to_change(entry.record, entry.timestamp))
    return quotas


def fill(state, *decisions, now=START, entries=(FIVE,)):
    """Give a state these decisions and entries, as of `now`."""
    for decision in decisions:
        state.record(*received(decision))
    state.add_changes(list(entries))
    state.refresh(now, quotas_of(*entries), changed=True)


class Page:
    """A dashboard as a browser meets it, at 127.0.0.1:8599."""

    def __init__(self, token="", servers="127.0.0.1:9092", **settings):
        own = [f"dashboard.{name}={value}" for name, value in settings.items()]
        loaded = load_settings(own, environment={})
        self.settings = with_sections(loaded, kafka={"bootstrap_servers": servers})  # unchecked
        self.feed = Feed(self.settings)
        self.feed.contact = Contact("live")
        self.session = Session(token)
        self.stop = threading.Event()
        self.stop.set()  # a stream ends at once, and a test that gets one by mistake does not wait for its end
        app = Dashboard(self.settings, self.feed, self.session, self.stop).app()

        async def at_its_address(scope, receive, send):
            await app(scope | {"server": ("127.0.0.1", 8599)}, receive, send)

        self.client = TestClient(at_its_address, base_url="http://127.0.0.1:8599", follow_redirects=False)

    @property
    def state(self):
        return self.feed.state


@pytest.fixture
def page(monkeypatch):
    """Return a function that creates a dashboard from settings, which answers to a wrong token at once."""
    monkeypatch.setattr("jobs.dashboard.server._WRONG_TOKEN_SECONDS", 0)
    return Page
