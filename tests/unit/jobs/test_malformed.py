"""Answers and quotas with nasty values that are still records: everything that processes them does so to the end."""

from jobs.audit.quota_history import ChangeDescriber
from quota.callbacks.timeline import CallbackTimeline
from quota.errors import BadRecord
from quota.explanation.explanation import explain
from quota.explanation.explanation_text import explanation_lines
from quota.records import codec
from quota.records.decision import Decision, read_decision
from quota.records.quota_log import Callbacks, QuotaLogEntry, read_quota_log_record
from quota.timeline.change import to_change
from tests.support.malformed import all_malformed

NOW = 129_600_000


def records_of(read):
    records = []
    for value in all_malformed():
        try:
            records.append(read(value))
        except BadRecord:
            continue
    assert len(records) > 20
    return records


def test_any_decision_can_be_explained():
    for decision in records_of(read_decision):
        assert isinstance(decision, Decision)
        explained = explain(decision)
        assert all(text.isprintable() for text, _ in explanation_lines(explained, NOW))
        assert codec.encode(explained.decision) == codec.encode(decision)


def test_any_record_of_the_quota_log_is_a_change_that_can_be_described():
    quotas, describer = CallbackTimeline(Callbacks()), ChangeDescriber()
    for offset, record in enumerate(records_of(read_quota_log_record)):
        quotas.add(to_change(record, NOW))
        describer.add(QuotaLogEntry(offset, NOW, record))
        try:
            assert quotas.resolve("alice", "app", NOW).tags is not None
        except BadRecord as error:
            assert "callback" in str(error)  # noqa: PT017 a record names a class that the settings do not allow
