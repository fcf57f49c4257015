"""`quotas push`, `pull` and `drift` without a cluster: what is refused, and what is told."""

import pytest

from jobs.cli.control import plans
from quota.errors import BadInput, MutationQuotaError
from tests.support.programs import run

NOWHERE = ["--bootstrap-server", "127.0.0.1:1", "--set", "kafka.timeout_seconds=0.5"]


@pytest.mark.parametrize(
    ("args", "error"),
    [
        (["push"], "there is no terminal to ask on: give --yes to do it, or --dry-run to see what would be done"),
        (["push", "--json"], "--json asks nobody: give --yes"),
        (["push", "--yes", "--repair"], "--repair: only with --follow"),
        (["push", "--yes", "--follow", "--dry-run"], "--follow has no end: leave --dry-run and --json out"),
        (["push", "--yes", "--follow", "--json"], "--follow has no end"),
        (["push", "--follow"], "there is no terminal to ask on"),
        (["pull", "--apply"], "there is no terminal to ask on"),
        (["pull", "--apply", "--yes", "--output", "quotas.yaml"], "--apply writes to the log, and --output a file"),
        (["pull", "--comment", "why"], "only with --apply"),
        (["pull", "--json"], "only with --apply"),
        (["pull", "--output", "/nowhere/quotas.yaml"], "--output /nowhere/quotas.yaml: there is no folder /nowhere"),
        (["pull", "--output", __file__], "there is such a file; move it away"),
        (["drift", "--prune"], "No such option: --prune"),
        (["drift", "--set", "gateway.kafka_clients=/nowhere/kafka.jar"], "/nowhere/kafka.jar cannot be read"),
    ],
)
def test_bad_input_is_one_line_and_exit_2_and_asks_no_cluster(args, error):
    done = run("quotas", *args, "--bootstrap-server", "127.0.0.1:1")
    assert (done.returncode, done.stdout) == (2, "")
    assert error in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("args", [["push", "--dry-run"], ["pull"], ["drift"], ["push", "--yes", "--follow"]])
def test_a_cluster_that_cannot_be_reached_is_one_line_and_exit_1(args):
    done = run("quotas", *args, *NOWHERE)
    assert (done.returncode, done.stdout) == (1, "")
    assert "127.0.0.1:1" in done.stderr
    assert done.stderr.count("\n") == 1


def test_who_is_asked_and_says_no_has_nothing_changed(monkeypatch):
    monkeypatch.setattr(plans.typer, "confirm", lambda _question, *, err: not err)
    with pytest.raises(MutationQuotaError, match="nothing was changed"):
        plans.confirm("Make these changes?", yes=False)
    plans.confirm("Make these changes?", yes=True)


def test_who_is_asked_on_a_terminal_may_leave_yes_out(monkeypatch):
    monkeypatch.setattr(plans.sys.stdin, "isatty", lambda: True, raising=False)
    plans.check_confirmable(dry_run=False, yes=False, as_json=False)
    with pytest.raises(BadInput):
        plans.check_confirmable(dry_run=False, yes=False, as_json=True)
