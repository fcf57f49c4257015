"""A what-if of audited requests says before it starts Spark that their store or their tables are not there."""

import pytest

from jobs.whatif import backtest, recommend, recorded
from quota.errors import MutationQuotaError
from quota.settings import load_settings
from quota.whatif.recommendation import SizingInput, Tenancy
from tests.support.object_store import store_settings


@pytest.fixture(autouse=True)
def _no_spark(monkeypatch):
    monkeypatch.setattr(recorded, "command_session", lambda *_, **__: pytest.fail("Spark was started"))


def run_backtest(settings):
    backtest.backtest(settings, [], None, None)


def run_recommend(settings):
    sizing = SizingInput(100.0, 0.2, None, settings.quota.window)
    recommend.recommend(settings, sizing, Tenancy.USER)


@pytest.mark.parametrize("command", [run_backtest, run_recommend])
def test_a_store_or_tables_that_are_not_there_are_named_and_no_folder_is_made(command, tmp_path):
    with pytest.raises(MutationQuotaError, match=r"http://127\.0\.0\.1:1 does not answer"):
        command(store_settings(1))
    settings = load_settings([f"storage.root={tmp_path / 'root'}"], environment={}, with_default_file=False)
    with pytest.raises(MutationQuotaError, match=r"^there is no table .*/decisions: run mutation-quota audit first"):
        command(settings)
    assert list(tmp_path.iterdir()) == []
