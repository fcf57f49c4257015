"""Settings for the tests of tables."""

import pytest


@pytest.fixture
def settings(base_settings, tmp_path):
    storage = base_settings.storage.model_copy(update={"root": str(tmp_path / "a root with spaces")})
    return base_settings.model_copy(update={"storage": storage})
