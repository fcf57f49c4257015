"""Settings of deployments whose tables are in a folder of the test."""

import pytest

from quota.settings import load_settings


def settings_of(folder):
    return load_settings([f"storage.root={folder / 'a root with spaces'}"], environment={}, with_default_file=False)


@pytest.fixture
def settings(tmp_path):
    return settings_of(tmp_path)


@pytest.fixture(scope="session")
def base():
    """Return the function that returns settings for a folder."""
    return settings_of
