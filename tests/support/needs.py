"""What tests need besides the Python packages, such as a browser."""

import os

import pytest


def need(present, missing):
    """Skip the test if something is not there, with a reason that says what to install; fail it in CI, which has all.

    CI is where the variable of that name is set, as `.ci/run` does.
    """
    if not present:
        pytest.fail(missing) if os.environ.get("CI") else pytest.skip(missing)
