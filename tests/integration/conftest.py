"""Commands as an operator gives them, on a deployment of the test's own."""

import json

import pytest

from tests.support.deployments import as_options
from tests.unit.whatif.test_simulation import run


@pytest.fixture
def command(deployment, tmp_path):
    """Run a command on this test's topics; what it prints, and its JSON where it is asked for some."""

    def _run(*args, exit_code=0):
        operator = ["--set", "quota.altered_by=ann"]
        done = run(*as_options(deployment), *operator, *args, cwd=tmp_path)
        assert done.returncode == exit_code, done.stderr
        return json.loads(done.stdout) if "--json" in args else done.stdout + done.stderr

    return _run
