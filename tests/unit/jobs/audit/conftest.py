"""Settings of deployments whose tables are in a folder of the test."""

import pytest

from quota.settings import load_settings


def settings_of(folder, *more):
    root = f"storage.root={folder / 'a root with spaces'}"
    return load_settings([root, *more], environment={}, with_default_file=False)


@pytest.fixture
def settings(tmp_path):
    return settings_of(tmp_path)
