"""`maintain`: the upkeep of the tables on demand."""

import json
import shutil
from datetime import UTC, datetime, timedelta
from itertools import count
from unittest.mock import Mock

import pytest

import jobs.audit.upkeep
from tests.support.object_store import store_overrides
from tests.support.programs import run
from tests.unit.jobs.audit.conftest import Decisions


@pytest.fixture
def kept(settings):
    return Decisions(settings)


@pytest.fixture
def maintain(tmp_path):
    """Runs the command on that deployment."""
    return lambda *args: run("maintain", "--set", f"storage.root={tmp_path}", *args, cwd=tmp_path)


def test_a_dry_run_says_what_would_be_done_and_changes_nothing(kept, maintain):
    kept.commit(1, day=-400)
    kept.commit(3)
    before = kept.table.version()
    ran = maintain("decisions", "--dry-run", "--set", "audit.keep_days.decisions=30")
    _, line, last = ran.stdout.splitlines()
    assert line.split() == ["decisions", "3", "1", "0"]  # how many files replace them is not known before
    assert last == "Nothing was changed."
    assert kept.table.version() == before


def test_rows_are_deleted_only_with_consent(kept, maintain):
    kept.commit(1, day=-400)
    kept.commit(1)
    ran = maintain("--set", "audit.keep_days.decisions=30", "--output", "json")
    assert ran.returncode == 2
    assert kept.offsets == [1, 2]
    ran = maintain("--set", "audit.keep_days.decisions=30", "--output", "json", "--yes")
    document = json.loads(ran.stdout)
    assert document["applied"]
    deleted = {table["table"]: table["rows_deleted"] for table in document["tables"]}
    assert deleted == {"decisions": 1, "dead_letters": 0, "quota_changes": 0}
    assert kept.offsets == [2]


def test_after_midnight_no_more_rows_are_deleted_than_were_confirmed(kept, maintain, monkeypatch):
    """Each call of the clock returns a time one day later."""
    for day in range(4):
        kept.commit(1, day=day)
    clock = (datetime(2026, 11, 23, 23, 59, tzinfo=UTC) + timedelta(days=days) for days in count())
    monkeypatch.setattr(jobs.audit.upkeep, "datetime", Mock(now=lambda _: next(clock)))
    ran = maintain("decisions", "--set", "audit.keep_days.decisions=1", "--yes")
    assert ran.returncode == 0, ran.stderr
    assert kept.offsets == [2, 3, 4]


def test_without_rows_to_delete_there_is_no_confirmation(kept, maintain):
    kept.commit(5)
    ran = maintain()
    assert ran.returncode == 0, ran.stderr
    assert kept.files == {"2026-11-21": 1}


def test_a_root_without_tables_is_an_error_as_for_the_commands_that_read_them(tmp_path):
    """It may be a typo."""
    ran = run("maintain", "--set", f"storage.root={tmp_path / 'typo'}")
    assert ran.returncode == 4
    assert ran.stderr.startswith(f"mutation-quota: there is no table {tmp_path}/typo/tables/decisions: ")
    assert "storage.root" in ran.stderr


def test_an_unavailable_store_is_named_before_any_table_is_opened(tmp_path):
    options = [word for override in store_overrides(1) for word in ("--set", override)]
    ran = run("maintain", *options, cwd=tmp_path)
    assert (ran.returncode, ran.stderr.count("\n")) == (1, 1)
    assert ran.stderr.startswith("mutation-quota: s3a://bucket/root/deployment/1 cannot be read: ")
    assert ran.stderr.endswith("Connection refused (os error 111); see docs/how-to/platforms/s3.md#errors\n")


def test_a_table_that_does_not_exist_is_an_error(kept, maintain):
    unknown = maintain("decision")
    assert (unknown.returncode, "'decision'" in unknown.stderr) == (2, True)

    shutil.rmtree(kept.settings.storage.table("dead_letters"))
    missing = maintain("dead_letters")
    assert (missing.returncode, "dead_letters" in missing.stderr) == (4, True)
