"""Commands as an operator runs them, on the deployment of the test."""

import json

import pytest

from tests.support.deployment import as_options
from tests.support.programs import run


@pytest.fixture
def command(deployment, tmp_path):
    """Return a function that runs a command and returns its output, as JSON with `--output json`."""

    def _run(*args, exit_code=0):
        operator = ["--set", "quota.altered_by=ann"]
        done = run(*as_options(deployment), *operator, *args, cwd=tmp_path)
        assert done.returncode == exit_code, done.stderr
        return json.loads(done.stdout) if "json" in args else done.stdout + done.stderr

    return _run
