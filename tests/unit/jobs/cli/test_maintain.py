"""`maintain`: the upkeep of the tables on demand."""

import json
import os
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from unittest.mock import Mock

import msgspec
import pytest
from typer.testing import CliRunner

import jobs.audit.upkeep.on_demand
from jobs.__main__ import app
from jobs.audit.tables.preparation import prepare_tables
from jobs.audit.tables.specs import TENANT_MINUTES
from jobs.audit.upkeep import work
from jobs.cli.options import ConfirmOptions
from jobs.storage.holder import Holder
from quota.errors import BadInput, MutationQuotaError
from quota.settings import load_settings
from tests.support.object_store import store_overrides
from tests.support.tables import names_in
from tests.unit.jobs.audit.upkeep.conftest import Decisions


@pytest.fixture
def kept(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return Decisions(load_settings([f"storage.root={tmp_path}"], environment={}, with_default_file=False))


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
    ran = maintain("--set", "audit.keep_days.decisions=30", "--json")
    assert isinstance(ran.exception, BadInput)
    assert kept.offsets == [1, 2]
    ran = maintain("--set", "audit.keep_days.decisions=30", "--json", "--yes")
    document = json.loads(ran.output)
    assert document["applied"]
    assert [(each["table"], each["rows_deleted"]) for each in document["tables"]] == [
        ("decisions", 1),
        ("dead_letters", 0),
        ("quota_changes", 0),
    ]
    assert kept.offsets == [2]


def test_after_midnight_no_more_rows_are_deleted_than_were_confirmed(kept, maintain, monkeypatch):
    """Each call of the clock returns a time one day later."""
    for day in range(4):
        kept.commit(1, day=day)
    clock = (datetime(2026, 11, 23, 23, 59, tzinfo=UTC) + timedelta(days=days) for days in count())
    monkeypatch.setattr(jobs.audit.upkeep.on_demand, "datetime", Mock(now=lambda _: next(clock)))
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


@pytest.mark.parametrize(
    ("name", "error"),
    [("decision", BadInput), ("tenant_minutes", MutationQuotaError)],
    ids=["no such table", "a table that does not exist yet"],
)
def test_a_missing_table_is_an_error(maintain, name, error):
    ran = maintain(name)
    assert isinstance(ran.exception, error)
    assert name in str(ran.exception)


@pytest.fixture
def root(kept):
    """The storage root, with a table of the minutes."""
    prepare_tables(kept.settings, names_in(kept.settings), [TENANT_MINUTES])
    return Path(kept.settings.storage.root)


def hold_minutes(root, **fields):
    """Let `minutes` run on a storage root."""
    holder = msgspec.structs.replace(Holder.here(os.getpid()), **fields)
    path = root / "leases" / "minutes" / "3"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(msgspec.json.encode(holder))


def test_the_table_of_a_running_minutes_job_is_skipped_and_the_others_are_maintained(kept, maintain, root):
    kept.commit(5)
    hold_minutes(root)
    ran = maintain("-o", "json")
    assert ran.exit_code == 0, ran.output
    assert "tenant_minutes" not in [each["table"] for each in json.loads(ran.stdout)["tables"]]
    assert f"tenant_minutes: minutes maintains it: process {os.getpid()} on " in ran.stderr
    assert kept.files == {"2026-11-21": 1}


def test_naming_the_table_of_a_running_minutes_job_is_an_error_with_advice(kept, maintain, root):
    kept.commit(5)
    hold_minutes(root)
    ran = maintain("decisions", "tenant_minutes")
    assert isinstance(ran.exception, MutationQuotaError)
    assert "stop it first" in str(ran.exception)
    assert kept.files == {"2026-11-21": 5}


@pytest.mark.parametrize("named", [False, True])
def test_a_minutes_that_starts_while_the_operator_is_asked_keeps_its_table(kept, maintain, root, monkeypatch, named):
    kept.commit(1, day=-400)
    kept.commit(1)
    monkeypatch.setattr(ConfirmOptions, "confirm", lambda *_: hold_minutes(root))
    names = ("decisions", "tenant_minutes") if named else ()
    ran = maintain(*names, "--yes", "--set", "audit.keep_days.decisions=30", "--json")
    if named:
        assert "stop it first" in str(ran.exception)
        assert kept.offsets == [1, 2]
    else:
        assert "the table is skipped" in ran.stderr
        assert "tenant_minutes" not in [each["table"] for each in json.loads(ran.stdout)["tables"]]
        assert kept.offsets == [2]


@pytest.mark.usefixtures("root")
def test_the_table_of_the_minutes_is_maintained_first_and_printed_last(kept, maintain, monkeypatch):
    """Its lease was checked just before."""
    kept.commit(1)
    maintained = []

    def record(store, table, *others):
        maintained.append(table.name)
        return work.maintain(store, table, *others)

    monkeypatch.setattr(jobs.audit.upkeep.on_demand, "maintain", record)
    printed = [each["table"] for each in json.loads(maintain("--json").stdout)["tables"]]
    assert maintained == ["tenant_minutes", "decisions", "dead_letters", "quota_changes"]
    assert printed == ["decisions", "dead_letters", "quota_changes", "tenant_minutes"]


def test_the_minutes_are_maintained_if_their_job_has_ended(kept, maintain, root):
    kept.commit(1)
    hold_minutes(root, ended=True)
    ran = maintain("tenant_minutes", "-o", "json")
    assert ran.exit_code == 0, ran.output
    assert [each["table"] for each in json.loads(ran.stdout)["tables"]] == ["tenant_minutes"]


def test_a_dry_run_shows_the_table_of_a_running_minutes_job_too(kept, maintain, root):
    kept.commit(1)
    hold_minutes(root)
    assert "tenant_minutes" in maintain("--dry-run").output


def test_the_time_of_the_last_upkeep_is_stored(kept, maintain):
    kept.commit(1)
    maintain("decisions")
    seconds = kept.table.transaction_version("mutation-quota-upkeep")
    assert abs(datetime.now(UTC).timestamp() - seconds) < 3600
