"""A test whose program is not installed is skipped on a machine, and fails in CI."""

import pytest

from tests.support.needs import need

MISSING = "no browser (apt-get install chromium)"


def test_a_test_without_its_program_is_skipped_with_what_to_install(monkeypatch):
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match="apt-get install chromium"):
        need(None, MISSING)


def test_a_test_without_its_program_fails_in_ci(monkeypatch):
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="apt-get install chromium"):
        need(None, MISSING)


def test_a_test_with_its_program_runs(monkeypatch):
    monkeypatch.setenv("CI", "true")
    assert need("/usr/bin/chromium", MISSING) is None
