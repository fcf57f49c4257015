"""The time at which a quota change takes effect, in the JSON of the commands that make it."""

import json

import pytest
from typer.testing import CliRunner

from jobs.__main__ import app
from jobs.cli.quotas import commands as quotas
from jobs.cli.quotas import files as quota_files
from quota.callbacks.timeline import CallbackTimeline
from quota.kafka.quotas import log, writer
from quota.settings import Settings

CHANGED_AT = 1_795_000_000_000
LATER = 4_000_000_000_000


class EmptyLog:
    """A quota log without records."""

    now = CHANGED_AT
    timeline = CallbackTimeline(Settings().quota.callbacks).timeline


@pytest.fixture(autouse=True)
def _no_cluster(monkeypatch):
    monkeypatch.setattr(quotas, "prepare_quota_topic", lambda _: None)
    monkeypatch.setattr(quota_files, "prepare_quota_topic", lambda _: None)
    monkeypatch.setattr(log, "read_log", lambda *_, **__: EmptyLog)
    monkeypatch.setattr(writer, "write_records", lambda _, records: [CHANGED_AT] * len(records))
    monkeypatch.setattr(writer, "alter_quota", lambda _settings, _entity, _at, change: (change(None), CHANGED_AT))


def changed(*args):
    done = CliRunner().invoke(app, ["quotas", *args, "--output", "json"], catch_exceptions=False)
    (change,) = json.loads(done.stdout)["changes"]
    return change["effective_at"]


def test_of_one_quota_it_is_the_timestamp_of_the_record():
    assert changed("alter", "--user", "alice", "--add-config", "controller_mutation_rate=5") == CHANGED_AT


@pytest.mark.parametrize(("options", "expected"), [([], None), (["--effective-at", str(LATER)], LATER)])
def test_of_a_file_it_is_the_requested_time(tmp_path, options, expected):
    file = tmp_path / "quotas.yaml"
    file.write_text("quotas:\n- entity: {user: alice}\n  controller_mutation_rate: 5\n")
    assert changed("apply", str(file), "--dry-run", *options) == expected
    assert changed("apply", str(file), "--yes", *options) == expected
