"""A rollback to before the first change removes every quota, so it needs an option of its own."""

import json
from types import SimpleNamespace

import pytest
import yaml

from quota.kafka.quotas import log as quota_log
from quota.kafka.timing import now_ms
from quota.planning.quota_file import write_quota_file
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


TEAM, OTHER, DEFAULT = QuotaEntity("team-a-etl"), QuotaEntity("team-b", "team-a-x"), QuotaEntity(None)
CLIENT = QuotaEntity(client_id="team-a-cron")


@pytest.mark.parametrize(
    ("only", "left"),
    [
        (["users: team-a-*"], [CLIENT, OTHER, DEFAULT]),
        (["users=team-a-*", "clients:team-a-?ron"], [OTHER, DEFAULT]),
        (["clients: team-a-*"], [TEAM, DEFAULT]),
        (["users: <default>"], [CLIENT, TEAM, OTHER]),
        (["users: *"], [CLIENT, DEFAULT]),
    ],
)
def test_the_file_of_a_team_removes_and_cancels_nothing_of_others(topic, command, tmp_path, only, left):
    """Each entity has a quota, and another is scheduled; the file is empty. A rollback and an export leave the same."""
    entities = [CLIENT, TEAM, OTHER, DEFAULT]
    later = now_ms() + HOUR
    topic.write([QuotaRecord(entity, 1.0) for entity in entities], later - 3 * HOUR)
    (tmp_path / "none.yaml").write_text("quotas: []")
    options = [word for value in only for word in ("--only", value)]
    exported, _ = command("quotas", "export", *options)
    assert len(yaml.safe_load(exported)["quotas"]) == len(entities) - len(left)
    topic.write([QuotaRecord(entity, 5.0) for entity in entities], later - 2 * HOUR)
    topic.write([QuotaRecord(entity, 9.0, effective_at=later) for entity in entities])

    done, _ = command("quotas", "rollback", "--at", str(later - 3 * HOUR), *options, "--yes", "--output", "json")
    cancelled = [change.get("cancelled") for change in json.loads(done)["changes"] if change["effective_at"]]
    assert cancelled == [True] * (len(entities) - len(left))
    assert [change.entity for change in topic.timeline.configured(now_ms()) if change.quota.rate == 5.0] == left
    assert [entity for entity, *_ in topic.scheduled()] == left

    command("quotas", "apply", str(tmp_path / "none.yaml"), *options, "--yes")
    assert [change.entity for change in topic.timeline.configured(now_ms())] == left
    assert [entity for entity, *_ in topic.scheduled()] == left


def test_a_file_with_more_than_its_scope_and_a_scope_without_a_pattern_are_rejected(topic, command, tmp_path):
    (tmp_path / "more.yaml").write_text(write_quota_file([QuotaRecord(TEAM, 1.0), QuotaRecord(OTHER, 1.0)]))
    apply = ("quotas", "apply", str(tmp_path / "more.yaml"), "--yes")
    _, error = command(*apply, "--only", "users: team-a-*", exit_code=2)
    assert "more.yaml: user-principal 'team-b', client-id 'team-a-x' is not among --only users: team-a-*" in error
    for wrong in ("team-a-*", "users:", "user: x", ""):
        _, error = command(*apply, "--only", wrong, exit_code=2)
        assert "expected 'users: GLOB' or 'clients: GLOB'" in error
    assert topic.entries == []


def test_the_quotas_of_others_close_a_loophole_that_a_team_alone_would_leave(topic, command, tmp_path):
    topic.write([QuotaRecord(DEFAULT, 1.0)])
    (tmp_path / "team.yaml").write_text(write_quota_file([QuotaRecord(QuotaEntity("team-a-etl", "app"), 2.0)]))
    _, warnings = command("quotas", "apply", str(tmp_path / "team.yaml"), "--only", "users: team-a-*", "--yes")
    assert warnings == ""
