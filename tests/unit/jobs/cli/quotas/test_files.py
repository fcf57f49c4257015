"""A rollback to before the first change removes every quota, so it needs an option of its own."""

from types import SimpleNamespace

import pytest

from quota.kafka.quotas import log as quota_log
from quota.kafka.timing import now_ms
from quota.records.entity import QuotaEntity
from quota.records.quota_log import QuotaLogEntry, QuotaRecord
from quota.text import format_time
from tests.support.factories import timeline
from tests.support.programs import run

HOUR = 3_600_000


@pytest.fixture
def rollback(monkeypatch):
    """Return a function that previews a rollback; alice has had 5/s since an hour ago, and 7/s since half an hour."""
    now = now_ms()
    rates = {now - HOUR: 5.0, now - HOUR // 2: 7.0}
    entries = [
        QuotaLogEntry(offset, at, QuotaRecord(QuotaEntity("alice"), rate))
        for offset, (at, rate) in enumerate(rates.items())
    ]
    changes = timeline(*((QuotaEntity("alice"), rate, at) for at, rate in rates.items()))
    log = SimpleNamespace(entries=entries, timeline=changes, now=now)
    monkeypatch.setattr(quota_log, "read_log", lambda *_, **__: log)

    def _rollback(ago_ms, *options):
        at = now - ago_ms
        done = run("quotas", "rollback", "--at", str(at), "--dry-run", "--bootstrap-server", "k:9092", *options)
        return done.returncode, done.stdout + done.stderr

    return _rollback, format_time(now - HOUR)


def test_a_time_within_the_log_is_restored(rollback):
    preview, _ = rollback
    code, printed = preview(HOUR)
    assert code == 3  # there are differences
    assert printed.splitlines() == [
        "~ user-principal 'alice': controller_mutation_rate=7.0 -> controller_mutation_rate=5.0",
        "1 change would be made: 1 changed.",
    ]


def test_a_time_before_the_log_is_rejected_with_the_time_at_which_it_begins(rollback):
    preview, begins = rollback
    code, printed = preview(HOUR + 1)
    assert code == 2
    assert f"the quota log begins at {begins}, before which there were no quotas; give a later time" in printed


def test_with_an_option_all_quotas_are_removed(rollback):
    preview, _ = rollback
    code, printed = preview(HOUR + 1, "--remove-all")
    assert code == 3
    assert printed.endswith("1 change would be made: 1 removed.\n")
