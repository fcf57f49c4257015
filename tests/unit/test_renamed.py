"""Modules under their old names: callbacks that were written for them still work, with a warning."""

import importlib
import sys

import pytest

import quota
from quota import _renamed
from quota.callbacks import Cluster, Quota
from quota.testing import CallbackHarness

OLD_STYLE = """
from quota.callbacks.default import DefaultQuotaCallback
from quota.callbacks.interface import QuotaValue
from quota.cluster import Cluster
from quota.entity import QuotaEntity
from quota.terms import Quota


class OldStyle(DefaultQuotaCallback):
    def quota_metric_tags(self, quota_type, principal, client_id):
        return {"user": "all"}

    def quota_limit(self, quota_type, metric_tags):
        return QuotaValue(Quota(7.0), QuotaEntity("all"))

    def update_cluster_metadata(self, cluster):
        assert isinstance(cluster, Cluster)
        return False
"""


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    """No old name has been imported yet."""
    for name in _renamed.MODULES:
        monkeypatch.delitem(sys.modules, name, raising=False)


def test_a_callback_written_for_old_names_works_with_a_warning_for_each(tmp_path, monkeypatch):
    (tmp_path / "old_style.py").write_text(OLD_STYLE)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.warns(DeprecationWarning, match="is deprecated") as caught:
        old_style = importlib.import_module("old_style")
    assert [(str(each.message), each.filename) for each in caught] == [
        (f"quota.{old} is deprecated: import from {place}", str(tmp_path / "old_style.py"))
        for old, place in [
            ("cluster", "quota.records.quota_log"),
            ("entity", "quota.records.entity or quota.timeline.levels or quota.text"),
            ("terms", "quota.records.quota"),
        ]
    ]
    with CallbackHarness(old_style.OldStyle) as harness:
        harness.set_cluster({"t": [0]})
        assert harness.resolve("alice", "app").limit.quota == Quota(7.0)


def test_the_warning_comes_once():
    with pytest.warns(DeprecationWarning, match="is deprecated"):
        old = importlib.import_module("quota.cluster")
    assert importlib.import_module("quota.cluster") is old
    assert old.Cluster is Cluster


@pytest.mark.parametrize("name", _renamed.MODULES)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_all_old_modules_can_be_imported(name):
    module = importlib.import_module(name)
    for old, present in _renamed.NAMES.get(name, {}).items():
        assert getattr(module, old) is getattr(module, present)


@pytest.mark.parametrize("name", ["quota.tariffs", "quota.kafka.tariffs", "tariffs"])
def test_a_name_that_never_existed_fails_as_ever(name):
    with pytest.raises(ModuleNotFoundError, match=f"No module named '{name}'"):
        importlib.import_module(name)


def test_the_version():
    assert quota.__version__ == "0.1.0"
    with pytest.raises(AttributeError, match="module 'quota' has no attribute 'tariffs'"):
        quota.tariffs  # noqa: B018
