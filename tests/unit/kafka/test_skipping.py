"""Records that are skipped: each counts, and a flood of them has few lines in the log."""

from types import SimpleNamespace

import pytest
from confluent_kafka import Message

from quota.errors import BadRecord
from quota.kafka import timing
from quota.kafka.skipping import Skipped


@pytest.fixture
def clock(monkeypatch):
    now = SimpleNamespace(seconds=100.0)
    monkeypatch.setattr(timing, "time", SimpleNamespace(monotonic=lambda: now.seconds))
    return now


def test_each_skipped_record_counts_and_one_in_ten_seconds_is_logged(clock, caplog):
    skipped, before = Skipped("a decision"), Skipped.counts["decisions"]
    for offset in range(1000):
        skipped.add(Message("decisions", 2, offset, None, b"{"), BadRecord("value: not JSON"))
    clock.seconds += 10
    skipped.add(Message("decisions", 2, 1000, None, b"{"), BadRecord("user: missing"))
    Skipped("a result").add(Message("results", 0, 5, None, b"{"), BadRecord("user: missing"))
    assert Skipped.counts["decisions"] - before == 1001
    assert caplog.messages == [
        "skipped decisions-2-0, which is not a decision: value: not JSON",
        "skipped decisions-2-1000 (and 999 before it), which is not a decision: user: missing",
        "skipped results-0-5, which is not a result: user: missing",
    ]
