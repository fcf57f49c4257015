"""A what-if of audited requests says before it starts Spark that their store or their tables are not there."""

import pytest

from jobs.whatif import backtest, recommend
from quota.errors import MutationQuotaError
from quota.settings import load_settings
from quota.whatif.recommendation import SizingInput, Tenancy
from tests.support.object_store import store_settings


@pytest.fixture(autouse=True)
def _no_spark(monkeypatch):
    for module in (backtest, recommend):
        monkeypatch.setattr(module, "what_if_session", lambda *_: pytest.fail("Spark was started"))


@pytest.fixture
def settings():
    return store_settings(1)


def test_by_backtest(settings):
    with pytest.raises(MutationQuotaError, match=r"http://127\.0\.0\.1:1 does not answer"):
        backtest.backtest(settings, [], None, None)


def test_without_tables_none_is_started_and_no_folder_is_made(tmp_path):
    settings = load_settings([f"storage.root={tmp_path / 'root'}"], environment={}, with_default_file=False)
    with pytest.raises(MutationQuotaError, match=r"^there is no table .*/decisions: run mutation-quota audit first"):
        backtest.backtest(settings, [], None, None)
    sizing = SizingInput(100.0, 0.2, None, settings.quota.window)
    with pytest.raises(MutationQuotaError, match=r"^there is no table .*/decisions: run mutation-quota audit first"):
        recommend.recommend(settings, recommend.RecommendOptions(sizing, Tenancy.USER))
    assert list(tmp_path.iterdir()) == []


def test_by_recommend(settings):
    sizing = SizingInput(100.0, 0.2, None, settings.quota.window)
    with pytest.raises(MutationQuotaError, match=r"http://127\.0\.0\.1:1 does not answer"):
        recommend.recommend(settings, recommend.RecommendOptions(sizing, Tenancy.USER))
