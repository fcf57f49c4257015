"""Commands as an operator gives them, on a deployment of the test's own."""

import json

import pytest

from tests.unit.test_simulate import run


@pytest.fixture
def command(deployment, tmp_path):
    """Run a command on this test's topics; what it prints, and its JSON where it is asked for some."""

    def _run(*args, exit_code=0):
        topics = [
            option
            for name, topic in deployment.topics
            for option in ("--set", f"topics.{name}={topic}")
            if name in {"requests", "decisions", "dead_letters", "quotas", "results"}
        ]
        server = ["--set", f"kafka.bootstrap_servers={deployment.kafka.bootstrap_servers}"]
        operator = ["--set", "quota.altered_by=ann"]
        done = run(*topics, *server, *operator, *args, cwd=tmp_path)
        assert done.returncode == exit_code, done.stderr
        return json.loads(done.stdout) if "--json" in args else done.stdout + done.stderr

    return _run
