"""How much the program logs, and where an error comes from."""

import pytest

from tests.support.programs import run

UNREACHABLE = ["quotas", "describe", "--bootstrap-server", "127.0.0.1:1", "--set", "kafka.timeout_seconds=0.5"]


@pytest.mark.parametrize(
    "args", [["-v", *UNREACHABLE], [*UNREACHABLE, "--verbose"], [*UNREACHABLE, "--log-level", "debug"]]
)
def test_debug_shows_where_an_error_comes_from_and_ends_with_the_one_line(args):
    done = run(*args)
    assert done.returncode == 1
    assert "Traceback (most recent call last)" in done.stderr
    assert done.stderr.splitlines()[-1].startswith("mutation-quota: cannot read ")


def test_an_unknown_level_is_refused():
    done = run("--log-level", "loud", "quotas", "describe")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "'debug', 'info', 'warning', 'error'" in done.stderr
