"""The changelog has the versions of the code, and the order of Keep a Changelog."""

import re

import pytest

from jobs.audit import query
from schemas import buckets, dead_letters, decisions, quota_changes
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
        f"version {dead_letters.VERSION} of `dead_letters`",
    ],
)
def test_the_latest_release_has_the_versions_of_the_code(sentence):
    assert sentence in LATEST


def test_the_kinds_of_changes_have_the_order_of_keep_a_changelog():
    order = ["Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"]
    for release in CHANGELOG.split("\n## ")[1:]:
        kinds = re.findall(r"^### (.*)$", release, re.MULTILINE)
        assert kinds == sorted(set(kinds), key=order.index)
