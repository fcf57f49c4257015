"""`maintain`: the upkeep of the tables on demand."""

import json
from datetime import UTC, datetime

import pytest
from typer.testing import CliRunner

from jobs.__main__ import app
from quota.errors import BadInput, MutationQuotaError
from quota.settings import load_settings
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
    assert document["carried_out"]
    assert [(each["table"], each["rows_deleted"]) for each in document["tables"]] == [
        ("decisions", 1),
        ("dead_letters", 0),
        ("quota_changes", 0),
    ]
    assert kept.offsets == [2]


def test_without_rows_to_delete_it_does_not_ask(kept, maintain):
    kept.commit(5)
    ran = maintain()
    assert ran.exit_code == 0, ran.output
    assert kept.files == {"2026-11-21": 1}


def test_a_deployment_without_tables_has_nothing_to_maintain(tmp_path):
    ran = CliRunner().invoke(app, ["--set", f"storage.root={tmp_path}", "maintain"])
    assert ran.output == "There are no tables yet: the audit creates them.\n"


@pytest.mark.parametrize(
    ("name", "error"),
    [("decision", BadInput), ("tenant_minutes", MutationQuotaError)],
    ids=["no such table", "a table that does not exist yet"],
)
def test_a_table_that_is_not_there_is_an_error(maintain, name, error):
    ran = maintain(name)
    assert isinstance(ran.exception, error)
    assert name in str(ran.exception)


def test_the_time_of_the_last_upkeep_is_stored(kept, maintain):
    kept.commit(1)
    maintain("decisions")
    seconds = kept.table.transaction_version("mutation-quota-upkeep")
    assert abs(datetime.now(UTC).timestamp() - seconds) < 3600
