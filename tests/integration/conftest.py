"""Commands as an operator runs them, on the deployment of the test."""

import json
from functools import partial

import pytest

from tests.support.deployment import as_options
from tests.support.programs import run, run_process


@pytest.fixture
def command(deployment, tmp_path):
    """Return a function that runs a command in this process and returns its output, as JSON with `--output json`.

    Commands that need Spark use the session that is given as `spark`.
    """
    return partial(_output_of, run, deployment, tmp_path)


@pytest.fixture
def program(deployment, tmp_path):
    """Return a function like `command` that runs the command as a process."""
    return partial(_output_of, run_process, deployment, tmp_path)


def _output_of(how, deployment, folder, *args, exit_code=0, **more):
    done = how(*as_options(deployment), *args, cwd=folder, **more)
    assert done.returncode == exit_code, done.stderr
    return json.loads(done.stdout) if "json" in args else done.stdout + done.stderr


@pytest.fixture(autouse=True)
def _author(monkeypatch):
    """Set the name that is recorded with changes of quotas."""
    monkeypatch.setenv("LOGNAME", "ann")
