"""A what-if of audited requests says that their store does not answer before it starts Spark."""

import pytest

from jobs.whatif import backtest, recommend
from quota.errors import MutationQuotaError
from quota.whatif.recommendation import SizingInput
from quota.whatif.tenancy import Tenancy
from tests.support.object_store import store_settings


@pytest.fixture
def settings(monkeypatch):
    for module in (backtest, recommend):
        monkeypatch.setattr(module, "what_if_session", lambda *_: pytest.fail("Spark was started"))
    return store_settings(1)


def test_by_backtest(settings):
    with pytest.raises(MutationQuotaError, match=r"http://127\.0\.0\.1:1 does not answer"):
        backtest.backtest(settings, [], None, None)


def test_by_recommend(settings):
    sizing = SizingInput(100.0, 0.2, None, settings.quota.window)
    with pytest.raises(MutationQuotaError, match=r"http://127\.0\.0\.1:1 does not answer"):
        recommend.recommend(settings, recommend.RecommendOptions(sizing, Tenancy.USER))
