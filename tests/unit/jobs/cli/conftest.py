"""A quota topic in memory, which the commands read and write."""

import pytest

from quota.callbacks.timeline import CallbackTimeline
from quota.kafka.quotas import log as quota_log
from quota.kafka.quotas import writer
from quota.kafka.timing import now_ms
from quota.kafka.topics import preparation
from quota.records.quota_log import QuotaLogEntry
from quota.timeline.change import to_change
from tests.support.programs import run


class QuotaTopic:
    """The topic, and a reader of it that has read everything."""

    def __init__(self):
        self.quotas, self.entries = CallbackTimeline(), []

    @property
    def now(self):
        return now_ms()

    @property
    def timeline(self):
        return self.quotas.timeline

    def read_to_end(self):
        """Do nothing: what is written has been read."""

    def take_entries(self):
        return self.entries

    def write(self, records, at=None):
        """Write records at a time (epoch ms), by default now, and return their timestamps."""
        for record in records:
            self.entries.append(QuotaLogEntry(len(self.entries), at or now_ms(), record))
            self.quotas.add(to_change(record, self.entries[-1].timestamp))
        return [entry.timestamp for entry in self.entries[len(self.entries) - len(records) :]]

    def scheduled(self):
        """Return the entities, times and quotas of the scheduled changes."""
        return [(change.entity, change.moment, change.quota) for change in self.timeline.scheduled(now_ms())]


@pytest.fixture
def topic(monkeypatch):
    made = QuotaTopic()
    monkeypatch.setattr(quota_log, "read_log", lambda *_, **__: made)
    monkeypatch.setattr(writer, "QuotaLog", lambda *_, **__: made)
    monkeypatch.setattr(writer.QuotaWriter, "write", lambda _, records: made.write(records))
    monkeypatch.setattr(preparation, "prepare_topics", lambda *_: None)
    return made


@pytest.fixture
def command():
    """Return a function that runs a command on the topic, and returns its output and its errors."""

    def _command(*args, exit_code=0):
        done = run(*args, "--bootstrap-server", "k:9092")
        assert done.returncode == exit_code, done.stderr
        return done.stdout, done.stderr

    return _command
