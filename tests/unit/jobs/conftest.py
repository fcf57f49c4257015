"""A deployment whose storage root is a folder of the test."""

import pytest

from quota.settings import load_settings


@pytest.fixture
def settings(tmp_path):
    return load_settings([f"storage.root={tmp_path}"], environment={}, with_default_file=False)
