"""The changelog has the versions of the code, and the order of Keep a Changelog."""

import re

import pytest

from jobs.audit import minutes, query
from schemas import buckets, dead_letters, decisions, quota_changes, tenant_minutes
from tests.support.checkout import CHECKOUT

CHANGELOG = (CHECKOUT / "CHANGELOG.md").read_text()
LATEST = " ".join(CHANGELOG.split("\n## ")[1].split())


@pytest.mark.parametrize(
    "sentence",
    [
        f"version {buckets.STATE_VERSION} of the bucket state",
        f"version {query.VERSION} of the audit's checkpoint",
        f"version {decisions.VERSION} of the table `decisions`",
        f"version {quota_changes.VERSION} of `quota_changes`",
        f"version {dead_letters.VERSION} of `dead_letters` and of `tenant_minutes`, and of the checkpoint of `minutes`",
    ],
)
def test_the_latest_release_has_the_versions_of_the_code(sentence):
    assert sentence in LATEST


def test_versions_that_the_changelog_gives_as_one_are_the_same():
    assert dead_letters.VERSION == tenant_minutes.VERSION == minutes.VERSION


def test_the_kinds_of_changes_have_the_order_of_keep_a_changelog():
    order = ["Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"]
    for release in CHANGELOG.split("\n## ")[1:]:
        kinds = re.findall(r"^### (.*)$", release, re.MULTILINE)
        assert kinds == sorted(set(kinds), key=order.index)
