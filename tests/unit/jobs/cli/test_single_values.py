"""Options with one value, given more than once."""

import pytest

from tests.support.programs import run


@pytest.mark.parametrize(
    ("args", "error"),
    [
        (["quotas", "alter", "--user", "a", "--user", "b"], "--user takes one value, and is given 2 times"),
        (
            ["quotas", "alter", "--user=ok", "--entity-type", "users", "--entity-name", ""],
            "--user takes one value, and is given 2 times",
        ),
        (["decisions", "list", "-o", "json", "--output=yaml"], "--output takes one value, and is given 2 times"),
        (["decisions", "list", *["--limit", "5"] * 3], "--limit takes one value, and is given 3 times"),
        (["--settings", "a", "--settings", "b", "status"], "--settings takes one value, and is given 2 times"),
    ],
)
def test_an_option_with_one_value_is_refused_the_second_time_in_whichever_form(args, error):
    done = run(*args)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"mutation-quota: {error}\n")


def test_repeatable_options_and_switches_may_be_given_again():
    twice = ["--set", "topics.partitions=3", "-v", "--changed"] * 2
    done = run("config", "show", "topics.partitions", *twice)
    assert (done.returncode, done.stderr) == (0, "")
