"""Unit tests close what they open."""

from pathlib import Path

import pytest

_UNIT_TESTS = Path(__file__).parent


def pytest_collection_modifyitems(items):
    """Fail unit tests that leave a file, a socket or a process to the garbage collector."""
    for each in items:
        if _UNIT_TESTS in each.path.parents:
            each.add_marker(pytest.mark.filterwarnings("error::ResourceWarning"))
