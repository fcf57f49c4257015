"""`maintain`: the upkeep of the tables on demand."""

import json
import shutil
from datetime import UTC, datetime, timedelta
from itertools import count
from unittest.mock import Mock

import pytest
from typer.testing import CliRunner

import jobs.audit.upkeep.maintain
from jobs.__main__ import app
from quota.errors import BadInput, MutationQuotaError
from tests.support.object_store import store_overrides
from tests.unit.jobs.audit.upkeep.conftest import Decisions


@pytest.fixture
def kept(settings, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return Decisions(settings)


@pytest.fixture
def maintain(kept):
    """Runs the command on that deployment."""

    def run(*args):
        return CliRunner().invoke(app, ["--set", f"storage.root={kept.settings.storage.root}", "maintain", *args])

    return run


def test_a_dry_run_says_what_would_be_done_and_changes_nothing(kept, maintain):
    kept.commit(1, day=-400)
    kept.commit(3)
    before = kept.table.version()
    ran = maintain("decisions", "--dry-run", "--set", "audit.keep_days.decisions=30")
    _, line, last = ran.output.splitlines()
    assert line.split() == ["decisions", "3", "1", "0"]  # the second number is unknown before
    assert last == "Nothing was changed."
    assert kept.table.version() == before


def test_rows_are_deleted_only_with_consent(kept, maintain):
    kept.commit(1, day=-400)
    kept.commit(1)
    ran = maintain("--set", "audit.keep_days.decisions=30", "--output", "json")
    assert isinstance(ran.exception, BadInput)
    assert kept.offsets == [1, 2]
    ran = maintain("--set", "audit.keep_days.decisions=30", "--output", "json", "--yes")
    document = json.loads(ran.output)
    assert document["applied"]
    deleted = {each["table"]: each["rows_deleted"] for each in document["tables"]}
    assert deleted == {"decisions": 1, "dead_letters": 0, "quota_changes": 0}
    assert kept.offsets == [2]


def test_after_midnight_no_more_rows_are_deleted_than_were_confirmed(kept, maintain, monkeypatch):
    """Each call of the clock returns a time one day later."""
    for day in range(4):
        kept.commit(1, day=day)
    clock = (datetime(2026, 11, 23, 23, 59, tzinfo=UTC) + timedelta(days=days) for days in count())
    monkeypatch.setattr(jobs.audit.upkeep.maintain, "datetime", Mock(now=lambda _: next(clock)))
    ran = maintain("decisions", "--set", "audit.keep_days.decisions=1", "--yes")
    assert ran.exit_code == 0, ran.output
    assert kept.offsets == [2, 3, 4]


def test_without_rows_to_delete_there_is_no_confirmation(kept, maintain):
    kept.commit(5)
    ran = maintain()
    assert ran.exit_code == 0, ran.output
    assert kept.files == {"2026-11-21": 1}


def test_a_root_without_tables_is_an_error_as_for_the_commands_that_read_them(tmp_path):
    """It may be a typo."""
    ran = CliRunner().invoke(app, ["--set", f"storage.root={tmp_path / 'typo'}", "maintain"])
    assert isinstance(ran.exception, MutationQuotaError)
    assert str(ran.exception).startswith(f"there is no table {tmp_path}/typo/tables/decisions: ")
    assert "storage.root" in str(ran.exception)


def test_an_unavailable_store_is_named_before_any_table_is_opened(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    options = [word for override in store_overrides(1) for word in ("--set", override)]
    ran = CliRunner().invoke(app, [*options, "maintain"])
    expected = "s3a://bucket/root cannot be used: http://127.0.0.1:1 does not answer; "
    assert isinstance(ran.exception, MutationQuotaError)
    assert str(ran.exception).startswith(expected)


def test_a_table_that_does_not_exist_is_an_error(kept, maintain):
    unknown = maintain("decision").exception
    assert isinstance(unknown, BadInput)
    assert "'decision'" in str(unknown)

    shutil.rmtree(kept.settings.storage.table("dead_letters"))
    missing = maintain("dead_letters").exception
    assert isinstance(missing, MutationQuotaError)
    assert "dead_letters" in str(missing)


def test_the_time_of_the_last_upkeep_is_stored(kept, maintain):
    kept.commit(1)
    maintain("decisions")
    seconds = kept.table.transaction_version("mutation-quota-upkeep")
    assert abs(datetime.now(UTC).timestamp() - seconds) < 3600
